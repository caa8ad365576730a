//! Which client a request is counted for.

use std::{
    borrow::Cow,
    hash::Hasher,
    net::{IpAddr, Ipv6Addr},
};

use siphasher::sip128::{Hasher128 as _, SipHasher13};

use super::attributes::Attributes;

/// The attribute that is an address, and counts by prefix in IPv6.
pub const ADDRESS: &str = "ip";

/// A client under a rule: the keyed hash of the attributes that the rule counts by. It has the same size whatever
/// callers send, and nobody without the key can choose two clients with the same hash.
pub(super) type Client = u128;

/// The key of hashes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seed(pub(super) u64, pub(super) u64);

/// Takes the hash of a client as it is, in tables of clients.
#[derive(Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn write_u128(&mut self, hash: u128) {
        self.0 ^= hash as u64;
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 ^= hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns whether two values of an attribute are the same. Addresses are, however they are written.
pub(super) fn is_same(name: &str, one: &str, other: &str) -> bool {
    let address = |text: &str| text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    one == other || (name == ADDRESS && address(one).is_some_and(|one| Some(one) == address(other)))
}

/// Returns the client of a request under a rule that counts by these attributes. None if one of them is missing.
pub(super) fn client(
    seed: Seed,
    by: &[String],
    ipv6_prefix: u8,
    attributes: &(impl Attributes + ?Sized),
) -> Option<Client> {
    let mut hasher = SipHasher13::new_with_keys(seed.0, seed.1);
    for name in by {
        let value = attributes.value(name)?;
        match (name == ADDRESS).then(|| value.parse::<IpAddr>().ok()).flatten() {
            Some(address) => match address.to_canonical() {
                IpAddr::V4(address) => {
                    hasher.write_u8(4);
                    hasher.write(&address.octets());
                }
                IpAddr::V6(address) => {
                    hasher.write_u8(6);
                    hasher.write(&prefix(address, ipv6_prefix).octets());
                }
            },
            None => {
                hasher.write_u8(0);
                // The length keeps ("ab", "c") apart from ("a", "bc").
                hasher.write_usize(value.len());
                hasher.write(value.as_bytes());
            }
        }
    }
    Some(hasher.finish128().as_u128())
}

/// Returns a value of an attribute as all values of the same client are written.
pub(super) fn shown<'a>(name: &str, value: &'a str, ipv6_prefix: u8) -> Cow<'a, str> {
    match (name == ADDRESS).then(|| value.parse::<IpAddr>().ok()).flatten().map(|address| address.to_canonical()) {
        None => value.into(),
        Some(IpAddr::V6(address)) if ipv6_prefix < 128 => {
            format!("{}/{ipv6_prefix}", prefix(address, ipv6_prefix)).into()
        }
        Some(address) => address.to_string().into(),
    }
}

fn prefix(address: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
    Ipv6Addr::from(u128::from(address) & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed(1, 2);

    fn of(pairs: &[(&str, &str)], by: &[&str]) -> Option<Client> {
        let by: Vec<_> = by.iter().map(|name| (*name).to_owned()).collect();
        client(SEED, &by, 64, pairs)
    }

    #[test]
    fn clients_with_different_values_are_apart() {
        let pairs = [[("a", "ab"), ("b", "c")], [("a", "a"), ("b", "bc")], [("a", "c"), ("b", "ab")]];
        let clients: std::collections::HashSet<_> = pairs.iter().map(|pairs| of(pairs, &["a", "b"])).collect();
        assert_eq!(clients.len(), 3);
        assert_eq!(of(&[("a", "x")], &["a", "b"]), None);
        assert_eq!(of(&[("a", "x"), ("c", "y")], &["a"]), of(&[("c", "z"), ("a", "x")], &["a"]));
    }

    #[test]
    fn a_text_cannot_continue_an_address() {
        let of = |ip: &str, user: &str| of(&[("ip", ip), ("user", user)], &["ip", "user"]);
        // Both have the same bytes, apart from the kind of the address.
        assert_ne!(of("32.1.13.184", &"\0".repeat(12)), of("2001:db8:c::", ""));
    }

    #[test]
    fn addresses_count_by_prefix_however_they_are_written() {
        let ip = |text: &str| of(&[("ip", text)], &["ip"]);
        assert_eq!(ip("2001:db8::1"), ip("2001:0DB8:0:0:ffff::2"));
        assert_ne!(ip("2001:db8::1"), ip("2001:db8:0:1::1"));
        assert_eq!(ip("192.0.2.1"), ip("::ffff:192.0.2.1"));
        assert_ne!(ip("192.0.2.1"), ip("192.0.2.2"));
        // What is no address is a client by its text.
        assert_ne!(ip("one"), ip("two"));
        assert_ne!(of(&[("user", "192.0.2.1")], &["user"]), of(&[("user", "::ffff:192.0.2.1")], &["user"]));
    }
}
