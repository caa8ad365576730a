//! One address, prefix or range as a word of a list.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{content::LineError, near::near};
use crate::text::prefix::{Prefix, PrefixError};

/// What a word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// An address without a length.
    Address(IpAddr),
    /// A prefix.
    Prefix(Prefix),
    /// A prefix, and the address that was given with bits beyond it.
    Cut(Prefix, IpAddr),
    /// A range from its first address to its last one.
    Range(IpAddr, IpAddr),
}

/// The fewest addresses of a block that two addresses can mean.
const BLOCK: u128 = 8;

impl Item {
    /// Reads a word. None if it is something else.
    ///
    /// # Errors
    ///
    /// Fails if the word has an address, but is none.
    pub(super) fn of(word: &str) -> Result<Option<Self>, LineError> {
        // Most words of most lines.
        if !word.contains(['.', ':', '/']) {
            return Ok(None);
        }
        if let Some(word) = unpadded(word) {
            return Self::of(&word);
        }
        match word.parse::<Prefix>() {
            Ok(prefix) if word.contains('/') => return Ok(Some(Self::Prefix(prefix))),
            Ok(prefix) => return Ok(Some(Self::Address(prefix.address()))),
            Err(PrefixError::HostBits(prefix, address)) => return Ok(Some(Self::Cut(prefix, address))),
            Err(error @ PrefixError::Mapped(_)) => return Err(error.into()),
            Err(error @ PrefixError::Bits(_)) => return with_mask(word).map(Some).ok_or(error.into()),
            Err(_) => {}
        }
        if let Some((first, last)) = ends(word) {
            return Self::range(first, last).map(Some);
        }
        let inner = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        if let Some(address) = inner.filter(|inner| inner.parse::<Ipv6Addr>().is_ok()) {
            return Self::of(address);
        }
        if let Some(prefix) = with_stars(word) {
            return Ok(Some(Self::Prefix(prefix)));
        }
        let inner = word.trim_start_matches(['!', '-', '~', '^', '+']);
        if let Some(sign) = word.chars().next().filter(|_| inner.len() < word.len())
            && matches!(Self::of(inner), Ok(Some(_)))
        {
            return Err(LineError::Sign(sign));
        }
        near(word).map_or(Ok(None), Err)
    }

    /// Returns the range between two addresses.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub(super) fn range(first: IpAddr, last: IpAddr) -> Result<Self, LineError> {
        for address in [first, last] {
            if let IpAddr::V6(v6) = address
                && let Some(v4) = v6.to_ipv4_mapped()
            {
                return Err(PrefixError::Mapped(v4).into());
            }
        }
        match first.is_ipv4() == last.is_ipv4() && first <= last {
            true => Ok(Self::Range(first, last)),
            false => Err(PrefixError::Range.into()),
        }
    }

    /// Returns what two addresses beside each other mean, if it can be only one thing: a range, or a network and its mask.
    pub(super) fn pair(one: IpAddr, other: IpAddr) -> Option<Self> {
        if one == other {
            return Some(Self::Address(one));
        }
        let mut range = None;
        if one.is_ipv4() == other.is_ipv4() && one < other {
            let (first, last) = (bits(one), bits(other));
            let size = last - first;
            let is_block =
                size.checked_add(1).is_none_or(|size| size.is_power_of_two() && size >= BLOCK && first % size == 0);
            // Such as 1.0.1.0 and 1.0.3.255.
            let edge = if one.is_ipv4() { 0xff } else { 0xffff };
            let is_whole = first & edge == 0 && last & edge == edge;
            range = (is_block || is_whole).then_some(Self::Range(one, other));
        }
        let masked = match (one, other) {
            (IpAddr::V4(_), IpAddr::V4(mask)) => length(mask).and_then(|bits| Self::network(one, bits)),
            _ => None,
        };
        match (range, masked) {
            (Some(range), Some(masked)) if range.parts() != masked.parts() => None,
            (range, masked) => range.or(masked),
        }
    }

    /// Returns the network of an address. None if the length is not one of its family.
    pub(super) fn network(address: IpAddr, bits: u8) -> Option<Self> {
        match format!("{address}/{bits}").parse() {
            Ok(prefix) => Some(Self::Prefix(prefix)),
            Err(PrefixError::HostBits(prefix, address)) => Some(Self::Cut(prefix, address)),
            Err(_) => None,
        }
    }

    /// Returns the address, if this is one alone.
    pub(super) fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address),
            _ => None,
        }
    }

    /// Returns whether this is probably a mask.
    pub(super) fn is_mask(self) -> bool {
        matches!(self, Self::Address(IpAddr::V4(v4)) if matches!(v4.octets(), [0 | 255, ..]))
    }

    /// Returns whether the address can be that of a network with a prefix of this length, or with this many addresses.
    pub(super) fn can_have(self, length: u64) -> bool {
        match self {
            Self::Address(IpAddr::V4(v4)) => {
                let (first, zeros) = (u64::from(v4.to_bits()), u64::from(v4.to_bits().trailing_zeros()));
                let is_block = length >= 8 && length.is_power_of_two() && first % length == 0;
                let is_blocks = length >= 256 && length.is_multiple_of(256) && first.is_multiple_of(256);
                (8..32).contains(&length) && zeros >= 32 - length || is_block || is_blocks
            }
            Self::Address(address @ IpAddr::V6(_)) => {
                (8..128).contains(&length) && ends_in_zeros(address, 128 - length)
            }
            _ => false,
        }
    }

    /// Calls `found` with each prefix, in order.
    pub(super) fn each(self, mut found: impl FnMut(Prefix)) {
        match self {
            Self::Address(address) => found(Prefix::host(address)),
            Self::Prefix(prefix) | Self::Cut(prefix, _) => found(prefix),
            Self::Range(first, last) => each_of_range(first, last, found),
        }
    }

    /// Returns whether this has all addresses of another one.
    pub(super) fn has(self, other: Self) -> bool {
        let ((first, last), (other_first, other_last)) = (self.ends(), other.ends());
        first.is_ipv4() == other_first.is_ipv4() && first <= other_first && other_last <= last
    }

    /// Returns the first and the last address.
    fn ends(self) -> (IpAddr, IpAddr) {
        match self {
            Self::Address(address) => (address, address),
            Self::Range(first, last) => (first, last),
            Self::Prefix(prefix) | Self::Cut(prefix, _) => match prefix.address() {
                IpAddr::V4(first) => {
                    let host = u32::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
                    (first.into(), Ipv4Addr::from_bits(first.to_bits() | host).into())
                }
                IpAddr::V6(first) => {
                    let host = u128::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
                    (first.into(), Ipv6Addr::from_bits(first.to_bits() | host).into())
                }
            },
        }
    }

    fn parts(self) -> Vec<Prefix> {
        let mut parts = Vec::new();
        self.each(|prefix| parts.push(prefix));
        parts
    }
}

/// Returns `001.002.003.000` without its zeros, which cannot make a number octal if all numbers have three digits.
fn unpadded(word: &str) -> Option<String> {
    let (first, rest) = word.split_at(word.find(['-', '/']).unwrap_or(word.len()));
    let without = |text: &str| {
        let is_number = |part: &str| part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        if text.len() != 15 || !text.split('.').all(is_number) || text.parse::<Ipv4Addr>().is_ok() {
            return None;
        }
        let numbers: Option<Vec<u8>> = text.split('.').map(|part| part.parse().ok()).collect();
        numbers.map(|numbers| numbers.iter().map(u8::to_string).collect::<Vec<_>>().join("."))
    };
    match (without(first), rest.strip_prefix('-').and_then(without)) {
        (None, None) => None,
        (Some(first), None) => Some(first + rest),
        (only, Some(last)) => Some(format!("{}-{last}", only.as_deref().unwrap_or(first))),
    }
}

/// Returns the two addresses of a word such as `192.0.2.1-192.0.2.9`.
fn ends(word: &str) -> Option<(IpAddr, IpAddr)> {
    let (first, last) = word.split_once(['-', '–', '—']).or_else(|| word.split_once(".."))?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Reads `192.0.2.0/255.255.255.0`, and the same with the bits of a mask turned.
fn with_mask(word: &str) -> Option<Item> {
    let (address, mask) = word.split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    Item::network(address.into(), length(mask.parse().ok()?)?)
}

/// Reads `192.0.2.*`.
fn with_stars(word: &str) -> Option<Prefix> {
    let zeros = word.strip_suffix(".*")?.replace('*', "0");
    let first: Ipv4Addr = format!("{zeros}.0").parse().ok()?;
    let known = word.split('.').take_while(|part| *part != "*").count();
    let is_whole = word.split('.').skip(known).all(|part| part == "*");
    let bits = u8::try_from(8 * known).ok().filter(|bits| is_whole && *bits != 0)?;
    Some(Prefix::of_address(first.into(), bits))
}

/// Returns the length of a prefix with this mask, or with this mask turned. None without any of the bits.
fn length(mask: Ipv4Addr) -> Option<u8> {
    let bits = mask.to_bits();
    let mask = if bits >> 31 == 1 { bits } else { !bits };
    let length = mask.leading_ones();
    let is_mask = bits != 0 && length + mask.trailing_zeros() == 32 && length >= 8;
    u8::try_from(length).ok().filter(|_| is_mask)
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn ends_in_zeros(address: IpAddr, count: u64) -> bool {
    u64::from(bits(address).trailing_zeros()) >= count
}

/// Calls `found` with the prefixes that make up a range, in order.
fn each_of_range(first: IpAddr, last: IpAddr, mut found: impl FnMut(Prefix)) {
    let family_bits = if first.is_ipv4() { 32 } else { 128 };
    let (mut next, last) = (bits(first), bits(last));
    loop {
        // The largest block that begins here, and then the largest that ends in the range.
        let mut host_bits = next.trailing_zeros().min(family_bits);
        while host_bits > 0 && (last - next) < block(host_bits) {
            host_bits -= 1;
        }
        let address = match first {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(next as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(next)),
        };
        found(Prefix::of_address(address, (family_bits - host_bits) as u8));
        match next.checked_add(block(host_bits)).and_then(|end| end.checked_add(1)) {
            Some(after) if after <= last => next = after,
            _ => return,
        }
    }
}

/// Returns the number of addresses in a block of so many bits, minus 1.
fn block(host_bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - host_bits).unwrap_or(0)
}
