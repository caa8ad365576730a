//! The keys of records in the engine. They are equal on every host, and those of one limit never mix with another's.

use ratelimit_common::fleet::share::Limit;
use smallvec::SmallVec;

/// Partitions of the records. Each call has keys of one partition, so that a cluster can serve it.
pub const PARTITIONS: u8 = 64;

/// Bytes of most keys. These lie in the memory of their owner, since a report of 10,000 sources would else fetch as many
/// other places of memory.
const SHORT: usize = 40;

/// The key of one source's record under one limit.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Key {
    text: SmallVec<[u8; SHORT]>,
    partition: u8,
}

impl Clone for Key {
    fn clone(&self) -> Self {
        // The library would copy byte by byte.
        Self { text: SmallVec::from_slice(&self.text), partition: self.partition }
    }
}

impl Key {
    /// Creates the key of a source, as text, under a limit.
    #[must_use]
    pub fn of(source: &str, limit: &Limit) -> Self {
        let partition = (fnv(source) % u64::from(PARTITIONS)) as u8;
        let text = format!("{{rl:{partition:02x}}}:{source}:{}:{}", limit.rate, limit.burst);
        Self { text: SmallVec::from_slice(text.as_bytes()), partition }
    }

    /// Returns the number of the partition.
    #[must_use]
    pub fn partition(&self) -> u8 {
        self.partition
    }

    /// Returns it as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.text).unwrap_or_default()
    }

    /// Returns the bytes of its text.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

/// Returns the FNV-1a hash of a text, which no version may change: hosts of all versions share records.
pub(super) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_partition_source_and_limit() {
        let limit = Limit { rate: 1_000.0, burst: 0.5 };
        let key = Key::of("192.0.2.1", &limit);
        assert_eq!(key.as_str(), "{rl:18}:192.0.2.1:1000:0.5");
        assert_eq!(key.partition(), 0x18);
        assert_ne!(key, Key::of("192.0.2.1", &Limit { rate: 1_001.0, ..limit }));
    }

    #[test]
    fn a_key_of_any_length_is_equal_to_its_copy() {
        for source in ["192.0.2.1", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff tcp/65535"] {
            let key = Key::of(source, &Limit { rate: 1.0 / 60.0, burst: 1.0 });
            assert!(key.as_str().contains(source));
            assert_eq!(key, key.clone());
        }
    }

    #[test]
    fn sources_spread_over_all_partitions() {
        let limit = Limit { rate: 1.0, burst: 1.0 };
        let mut sources = [0; PARTITIONS as usize];
        for number in 0..6_400 {
            let key = Key::of(&format!("10.0.{}.{}", number / 256, number % 256), &limit);
            sources[usize::from(key.partition())] += 1;
        }
        assert!(sources.iter().all(|count| (50..200).contains(count)), "{sources:?}");
    }
}
