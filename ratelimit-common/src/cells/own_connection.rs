//! What is remembered of connections that this host may have opened, so that not every packet needs its socket.
//!
//! A word remembers one connection, or one source with such connections. Attackers choose the connections that were
//! looked up in vain. So these never take the place of a connection that is the host's own.

use crate::{boundary, cells::known_source::second};

/// Entries of the map of connections, a power of two: 512 kB at 8 bytes each.
pub const CONNECTIONS: u32 = 1 << 16;
/// Entries of the map of sources with own connections, a power of two: 786 kB at 48 bytes each.
pub const PEERS: u32 = 1 << 14;

/// Steps of [`second`] for which an answer counts without another look-up, after the one in which it was found.
const VALID: u64 = 1;
/// Steps of [`second`] for which an own connection keeps its place.
pub const KEPT: u64 = 60;

/// Steps that a CPU's clock can be behind another's.
const BEHIND: u64 = 4;

const SECOND_BITS: u32 = 24;
const SECOND_MASK: u64 = (1 << SECOND_BITS) - 1;
const IS_OWN: u64 = 1 << SECOND_BITS;
const HASH_SHIFT: u32 = SECOND_BITS + 1;

/// Answer of a look-up in a word: 39 bits of a keyed hash, one bit for *own*, 24 bits of the second. Zero is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Remembered(pub u64);

/// A source from which own connections got packets above a limit.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peer {
    /// The source, as [`Remembered`].
    pub seen: u64,
    /// State of the rate of own connections.
    pub rate: u64,
    /// States of the budgets for look-ups in vain: one for each kind of packet, by protocol and local port.
    pub look_ups: [u64; BUDGETS],
}
boundary!(Peer, size 48);

/// Budgets of a source for look-ups in vain.
pub const BUDGETS: usize = 4;

impl Remembered {
    /// Creates the answer of a look-up at `now`, in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub const fn new(hash: u64, is_own: bool, now: u64) -> Self {
        let own = if is_own { IS_OWN } else { 0 };
        Self(hash >> HASH_SHIFT << HASH_SHIFT | own | second(now))
    }

    /// Returns whether it is about what has this hash.
    #[inline(always)]
    #[must_use]
    pub const fn is(self, hash: u64) -> bool {
        (self.0 ^ hash) >> HASH_SHIFT == 0 && self.0 != 0
    }

    /// Returns whether it is about an own connection.
    #[inline(always)]
    #[must_use]
    pub const fn is_own(self) -> bool {
        self.0 & IS_OWN != 0
    }

    /// Returns whether it counts at `now` without another look-up.
    #[inline(always)]
    #[must_use]
    pub const fn is_valid(self, now: u64) -> bool {
        self.age(now) <= VALID
    }

    /// Returns whether it is about an own connection that keeps its place.
    #[inline(always)]
    #[must_use]
    pub const fn is_kept(self, now: u64) -> bool {
        self.is_own() && self.age(now) <= KEPT
    }

    /// Returns the steps since the look-up: 0 on a CPU whose clock is behind.
    #[inline(always)]
    const fn age(self, now: u64) -> u64 {
        let age = second(now).wrapping_sub(self.0) & SECOND_MASK;
        if age > SECOND_MASK - BEHIND { 0 } else { age }
    }
}

/// Returns the keyed hash of a connection: addresses and ports in 36 bytes, and a number for protocol and family.
/// `word` returns one of five words. Each is read when it is needed, because the kernel side has few registers.
///
/// Each half of a word is multiplied by a secret number of its own, so no known difference between two connections makes
/// their hashes equal. Products of the seed's numbers serve as further ones.
#[inline(always)]
#[must_use]
pub fn hash(word: impl Fn(usize) -> u64, kind: u32, seed: &[u64; 4]) -> u64 {
    let [a, b, c, d] = [seed[0] | 1, seed[1] | 1, seed[2] | 1, seed[3] | 1];
    let halves = |index, low: u64, high: u64| {
        let word = word(index);
        low.wrapping_mul(word & u64::from(u32::MAX)).wrapping_add(high.wrapping_mul(word >> 32))
    };
    let sum = halves(0, a, b);
    let sum = sum.wrapping_add(halves(1, c, d));
    let sum = sum.wrapping_add(halves(2, a.wrapping_mul(b), a.wrapping_mul(c)));
    let sum = sum.wrapping_add(halves(3, a.wrapping_mul(d), b.wrapping_mul(c)));
    let sum = sum.wrapping_add(halves(4, b.wrapping_mul(d), 0));
    let sum = sum.wrapping_add(c.wrapping_mul(d).wrapping_mul(u64::from(kind)));
    // The lower bits select the entry, and would depend on the lower bits of the words only.
    let spread = (sum ^ sum >> 32).wrapping_mul(b);
    spread ^ spread >> 32
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;

    const STEP: u64 = 1 << 30;
    const SEED: [u64; 4] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

    proptest! {
        #[test]
        fn an_answer_says_what_was_written(hash: u64, is_own: bool, now in 1u64..1 << 53) {
            let answer = Remembered::new(hash, is_own, now);
            prop_assert_eq!(answer.is_own(), is_own);
            prop_assert_eq!(answer.is(hash), answer.0 != 0);
            prop_assert!(!answer.is(hash ^ 1 << HASH_SHIFT));
            prop_assert!(answer.is_valid(now) && answer.is_valid(now + VALID * STEP));
            prop_assert!(!answer.is_valid(now + (VALID + 1) * STEP));
            prop_assert_eq!(answer.is_kept(now + KEPT * STEP), is_own);
            prop_assert!(!answer.is_kept(now + (KEPT + 1) * STEP));
        }

        #[test]
        fn connections_that_differ_have_different_hashes(words: [u64; 4], ports: u32, bit in 0usize..288, seed: [u64; 4]) {
            let [a, b, c, d] = words;
            let words = [a, b, c, d, u64::from(ports)];
            let mut other = words;
            other[bit / 64] ^= 1 << (bit % 64);
            prop_assert_ne!(hash(|i| words[i], 1, &seed), hash(|i| other[i], 1, &seed));
            prop_assert_ne!(hash(|i| words[i], 1, &seed), hash(|i| words[i], 2, &seed));
        }
    }

    /// These differences cancel out in a hash that xors and folds.
    #[test]
    fn differences_in_two_words_do_not_cancel_out() {
        let words = [7, 8, 9, 10, 11];
        for (one, other) in (0..9).flat_map(|one| (0..one).map(move |other| (one, other))) {
            for bits in [[31, 31], [0, 0], [31, 0], [16, 31]] {
                let mut changed = words;
                changed[one / 2] ^= 1 << (32 * (one % 2) + bits[0]);
                changed[other / 2] ^= 1 << (32 * (other % 2) + bits[1]);
                assert_ne!(hash(|i| words[i], 1, &SEED), hash(|i| changed[i], 1, &SEED), "{one} {other} {bits:?}");
            }
        }
    }

    #[test]
    fn hashes_of_neighbours_spread_over_the_entries() {
        let of = |port: u64| hash(|i| [1, 2, 3, 4, port << 16 | 80][i], 1, &SEED) as u32 & (CONNECTIONS - 1);
        let mut entries: std::vec::Vec<_> = (0..10_000).map(of).collect();
        entries.sort_unstable();
        entries.dedup();
        assert!(entries.len() > 9_000, "{} entries for 10,000 connections", entries.len());
    }
}
