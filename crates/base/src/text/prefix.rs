//! Addresses and prefixes as text.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use ratelimit_common::{
    identity::source::{IPV4, Source},
    rules::list::{SHORTEST_V4, SHORTEST_V6},
};

/// The length of the prefix of an IPv6 network.
const NETWORK: u8 = 64;

/// A prefix of addresses, such as `203.0.113.0/24`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// Text that cannot be parsed as a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The text is not an address.
    #[error("expected an address or a prefix, such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/48")]
    Address,
    /// The length is not a number, or longer than an address of the family.
    #[error("expected at most {0} bits after the slash")]
    Bits(u8),
    /// The text is an IPv4-mapped IPv6 address, which no packet carries.
    #[error("packets carry the IPv4 address instead: write {0}")]
    Mapped(Ipv4Addr),
    /// Bits beyond the prefix are set, which is probably a mistake.
    #[error("the address has bits set beyond the prefix: write {0} or {1}")]
    HostBits(Prefix, IpAddr),
    /// The text is a range, where only a prefix can be.
    #[error("a range cannot be used here: write its prefixes, or give it as a line of a list")]
    OnlyInLines,
    /// The text is a range that is none.
    #[error("the range ends before it begins, or in the other family")]
    Range,
}

impl Prefix {
    /// Returns the prefix of one address.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self { address, bits: family_bits(address) }
    }

    /// Returns the first address.
    #[must_use]
    pub fn first(self) -> Self {
        Self::host(self.address)
    }

    /// Returns the address with which it begins.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the prefix of an address whose bits beyond it are zero.
    pub(super) fn of_address(address: IpAddr, bits: u8) -> Self {
        Self { address, bits }
    }

    /// Returns the /64 around an IPv6 address, which one line usually has, or the IPv4 address alone.
    pub fn network_of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(_) => Self::host(address.to_canonical()),
            IpAddr::V6(v6) => Self::of(&Source::v6(v6.octets(), NETWORK), NETWORK),
        }
    }

    /// Returns the prefix of a source or rule key: `bits` bits of its address.
    #[must_use]
    pub fn of(source: &Source, bits: u8) -> Self {
        let [a, b, c, d, ..] = source.address();
        let address = match source.family {
            IPV4 => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from(source.address())),
        };
        Self { address, bits }
    }

    /// Returns the source with exactly this prefix.
    #[must_use]
    pub fn source(&self) -> Source {
        match self.address {
            IpAddr::V4(address) => Source::v4(address.octets()).shortened(self.bits),
            IpAddr::V6(address) => Source::v6(address.octets(), self.bits),
        }
    }

    /// Returns whether this prefix contains every address of `other`.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let (own, other_source) = (self.source(), other.source());
        other.bits >= self.bits && other_source.shortened(self.bits) == own.shortened(self.bits)
    }

    /// Parses the prefix of a source. Unlike the prefix of a rule, it can be IPv4-mapped: a sender can put any address into
    /// an IPv6 packet.
    ///
    /// # Errors
    ///
    /// Fails if the text is no prefix.
    pub fn of_any_source(text: &str) -> Result<Self, PrefixError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| not_an_address(text))?;
        let most = family_bits(address);
        let Some(bits) = bits else { return Ok(Self::host(address)) };
        let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|&bits| digits && bits <= most).ok_or(PrefixError::Bits(most))?;
        let network = match address {
            IpAddr::V4(v4) => Self::of(&Source::v4(v4.octets()).shortened(bits), bits).address,
            IpAddr::V6(v6) => Self::of(&Source::v6(v6.octets(), bits), bits).address,
        };
        if network != address {
            return Err(PrefixError::HostBits(Self { address: network, bits }, address));
        }
        Ok(Self { address, bits })
    }

    /// Returns whether this is one address.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.bits == family_bits(self.address)
    }

    /// Returns whether this is too wide for a list: by mistake or on purpose, it could cut the host off.
    #[must_use]
    pub fn is_too_wide(&self) -> bool {
        self.bits < if self.address.is_ipv4() { SHORTEST_V4 } else { SHORTEST_V6 }
    }

    /// Returns the number of significant bits.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.bits
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let address = text.split_once('/').map_or(text, |(address, _)| address);
        match address.parse::<Ipv6Addr>().ok().and_then(|v6| v6.to_ipv4_mapped()) {
            Some(v4) => Err(PrefixError::Mapped(v4)),
            None => Self::of_any_source(text),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.bits == family_bits(self.address) { Ok(()) } else { write!(f, "/{}", self.bits) }
    }
}

/// Returns what is wrong with a text that does not begin with an address.
fn not_an_address(text: &str) -> PrefixError {
    let is_address = |text: &str| text.trim().parse::<IpAddr>().is_ok();
    let is_range = text.split_once('-').is_some_and(|(first, last)| is_address(first) && is_address(last));
    if is_range { PrefixError::OnlyInLines } else { PrefixError::Address }
}

fn family_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invalid_prefixes_are_refused() {
        let error = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
        assert!(error("").starts_with("expected an address"));
        assert!(error("10.0.0").starts_with("expected an address"));
        assert!(error("10.0.0.1-10.0.0.9").starts_with("a range cannot be used here"));
        assert!(error("10.0.0.1-9").starts_with("expected an address"));
        assert!(error("10.0.0.0/").ends_with("at most 32 bits after the slash"));
        assert!(error("10.0.0.0/+8").ends_with("at most 32 bits after the slash"));
        assert!(error("10.0.0.0/33").ends_with("at most 32 bits after the slash"));
        assert!(error("::/129").ends_with("at most 128 bits after the slash"));
        assert!(error("::ffff:10.0.0.1").ends_with("write 10.0.0.1"));
        assert!(error("10.0.0.1/8").ends_with("write 10.0.0.0/8 or 10.0.0.1"));
    }

    #[test]
    fn the_host_cannot_be_cut_off_by_one_line() {
        let is_wide = |text: &str| text.parse::<Prefix>().unwrap().is_too_wide();
        assert!(
            ["0.0.0.0/0", "128.0.0.0/1", "10.0.0.0/7", "::/0", "2000::/3", "2000::/15"].iter().all(|it| is_wide(it))
        );
        assert!(!["10.0.0.0/8", "2001::/16", "192.0.2.1"].iter().any(|it| is_wide(it)));
    }

    proptest! {
        #[test]
        fn written_prefixes_read_the_same(address: u128, v4: bool, bits in 0u8..=128) {
            let address = if v4 { IpAddr::V4(Ipv4Addr::from(address as u32)) } else { IpAddr::V6(Ipv6Addr::from(address)) };
            let bits = bits.min(family_bits(address));
            let prefix = match format!("{address}/{bits}").parse::<Prefix>() {
                Ok(prefix) => prefix,
                Err(PrefixError::HostBits(prefix, _)) => prefix,
                Err(PrefixError::Mapped(_)) => return Ok(()),
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            };
            prop_assert_eq!(prefix.to_string().parse::<Prefix>()?, prefix);
            prop_assert_eq!(Prefix::of_any_source(&prefix.to_string())?, prefix);
            prop_assert_eq!(Prefix::of(&prefix.source(), bits), prefix);
        }
    }
}
