//! The secret of a fleet: it seals datagrams, and hides the keys of records.

use ring::hmac;

use crate::key::Key;

/// Bytes of a seal.
pub(super) const SEAL: usize = 32;

/// What stands for the key of a record between hosts. A listener does not learn the source from it.
pub(super) type Name = [u8; 16];

/// The secret of a fleet.
pub(super) struct Secret(hmac::Key);

impl Secret {
    pub(super) fn new(text: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()))
    }

    /// Adds the seal of a datagram.
    pub(super) fn close(&self, datagram: &mut Vec<u8>) {
        datagram.extend(hmac::sign(&self.0, datagram).as_ref());
    }

    /// Returns a datagram without its seal, if a host with the same secret has sealed it.
    pub(super) fn open<'a>(&self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        let (text, seal) = datagram.split_at_checked(datagram.len().checked_sub(SEAL)?)?;
        hmac::verify(&self.0, text, seal).ok().map(|()| text)
    }

    /// Returns the name of a record. No datagram begins with the same bytes, so none has such a seal.
    pub(super) fn name(&self, key: &Key) -> Name {
        let seal = hmac::sign(&self.0, format!("key {}", key.as_str()).as_bytes());
        let mut name = Name::default();
        name.iter_mut().zip(seal.as_ref()).for_each(|(to, from)| *to = *from);
        name
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::fleet::share::Limit;

    use super::*;

    #[test]
    fn only_the_same_secret_opens_what_it_has_sealed() {
        let (secret, other) = (Secret::new("a secret of this fleet"), Secret::new("a secret of another one"));
        let mut datagram = b"rlg1 text".to_vec();
        secret.close(&mut datagram);
        assert_eq!(secret.open(&datagram), Some(&b"rlg1 text"[..]));
        assert_eq!(other.open(&datagram), None);
        for place in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[place] ^= 1;
            assert_eq!(secret.open(&changed), None, "byte {place}");
            assert_eq!(secret.open(&datagram[..place]), None, "{place} bytes");
        }
    }

    #[test]
    fn each_key_and_each_fleet_has_other_names() {
        let limit = Limit { rate: 1_000.0, burst: 100.0 };
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|source| Key::of(source, &limit));
        let (secret, other) = (Secret::new("a secret of this fleet"), Secret::new("a secret of another one"));
        assert_eq!(secret.name(&one), secret.name(&one));
        assert_ne!(secret.name(&one), secret.name(&two));
        assert_ne!(secret.name(&one), other.name(&one));
    }
}
