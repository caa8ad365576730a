//! Known sources: sources that passed packets in several seconds, and not long ago, or that proved their address. A cell
//! remembers two of them. Most forged sources do not become known.
//!
//! The longer a source was active, the longer it stays known while it is idle. So a source that sends three packets
//! leaves its place soon. A proven source stays known for the longest time.

/// One remembered source in a word: the bits 12 to 43 of its hash, one bit for *proven*, 7 bits of its tenure, 24 bits of
/// the last second. Zero is no source.
///
/// The tenure is the number of seconds in which it passed packets. 1 and 2 stand for themselves, 4 and above for one
/// less, and 3 for the longest, since earlier versions wrote 3 for every known source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownSource(pub u64);

/// Least number of seconds in which a known source passed packets.
pub const SECONDS: u64 = 3;
/// Number of seconds from which on a source is remembered for the longest time.
pub const LONGEST: u64 = 24;
/// Steps of [`second`] after its last packet for which a source of the longest tenure is remembered: ten minutes.
pub const KEPT: u64 = 559;

/// [`KnownSource`]: the tenure [`LONGEST`].
const IS_LONGEST: u64 = 3;

/// Steps that a CPU's clock can be behind another's.
const BEHIND: u64 = 4;

const LAST_BITS: u32 = 24;
const LAST_MASK: u64 = (1 << LAST_BITS) - 1;
const TENURE_MASK: u64 = 0x7f;
const PROVEN_SHIFT: u32 = 31;
const HASH_SHIFT: u32 = 32;
/// The lowest bit of the hash in the word. The lowest bits in the word also select the cell, so they tell to which cell a
/// source belongs when there are more cells. With 131,072 cells, the other 27 bits tell the sources of a cell apart. With a
/// million cells, 24 bits do.
const FIRST_HASH_BIT: u32 = 12;

/// Returns the second of a time in nanoseconds, in steps of 2³⁰ ns (1.07 s). Its 24 bits wrap after 208 days.
#[inline(always)]
#[must_use]
pub const fn second(now: u64) -> u64 {
    now >> 30 & LAST_MASK
}

/// Returns the steps of [`second`] for which a source of this tenure is remembered while it is idle.
#[inline(always)]
#[must_use]
pub const fn kept(tenure: u64) -> u64 {
    if tenure < LONGEST { tenure * tenure + 4 } else { KEPT }
}

impl KnownSource {
    /// Creates a source that passes its first packet.
    #[inline(always)]
    #[must_use]
    pub const fn new(hash: u64, second: u64) -> Self {
        Self(in_word(hash) | 1 << LAST_BITS | second)
    }

    /// Creates a source that has proven its address in this second.
    #[inline(always)]
    #[must_use]
    pub const fn proven(hash: u64, second: u64) -> Self {
        Self(in_word(hash) | 1 << PROVEN_SHIFT | IS_LONGEST << LAST_BITS | second)
    }

    /// Returns whether the source has proven its address.
    #[inline(always)]
    #[must_use]
    pub const fn is_proven(self) -> bool {
        self.0 >> PROVEN_SHIFT & 1 != 0
    }

    /// Returns whether this is the source with that hash.
    #[inline(always)]
    #[must_use]
    pub const fn is(self, hash: u64) -> bool {
        (self.0 ^ in_word(hash)) >> HASH_SHIFT == 0 && self.0 != 0
    }

    /// Returns whether a source of one of `before` cells can belong to the cell with this index once there are `after`
    /// cells. Both numbers are powers of two.
    #[must_use]
    pub const fn belongs_to(self, index: usize, before: usize, after: usize) -> bool {
        let told = (after - 1) & !(before - 1) & !((1 << FIRST_HASH_BIT) - 1);
        ((self.0 >> HASH_SHIFT << FIRST_HASH_BIT) as usize ^ index) & told == 0
    }

    /// Returns the number of seconds in which the source passed packets, up to [`LONGEST`].
    #[inline(always)]
    #[must_use]
    pub const fn tenure(self) -> u64 {
        match self.0 >> LAST_BITS & TENURE_MASK {
            IS_LONGEST => LONGEST,
            stored if stored > IS_LONGEST => stored - 1,
            stored => stored,
        }
    }

    /// Returns whether the source passed packets often enough to be known, or has proven its address.
    #[inline(always)]
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.0 >> LAST_BITS & TENURE_MASK >= IS_LONGEST
    }

    /// Returns whether the place is free for another source.
    #[inline(always)]
    #[must_use]
    pub const fn gives_way(self, second: u64) -> bool {
        self.0 == 0 || self.age(second) > kept(self.tenure())
    }

    /// Returns this source after a packet that passed in this second.
    #[inline(always)]
    #[must_use]
    pub const fn seen(self, second: u64) -> Self {
        if self.gives_way(second) {
            return Self(self.0 >> HASH_SHIFT << HASH_SHIFT | 1 << LAST_BITS | second);
        }
        // The same second, or an earlier one by the clock of another CPU.
        if self.age(second) == 0 {
            return self;
        }
        let stored = match self.tenure() + 1 {
            tenure if tenure >= LONGEST => IS_LONGEST,
            tenure if tenure >= SECONDS => tenure + 1,
            tenure => tenure,
        };
        // A proof stays.
        Self(self.0 >> PROVEN_SHIFT << PROVEN_SHIFT | stored << LAST_BITS | second)
    }

    /// Returns the steps since the last packet: 0 on a CPU whose clock is behind. A second further ahead is no source:
    /// the place may have held a cached refusal before unknown sources were limited.
    #[inline(always)]
    const fn age(self, second: u64) -> u64 {
        let age = second.wrapping_sub(self.0) & LAST_MASK;
        if age > LAST_MASK - BEHIND { 0 } else { age }
    }
}

/// Returns the bits of a hash that a word has, at their place.
#[inline(always)]
const fn in_word(hash: u64) -> u64 {
    hash << (HASH_SHIFT - FIRST_HASH_BIT) >> HASH_SHIFT << HASH_SHIFT
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const HASH: u64 = 0xdead_beef_0123_4567;

    fn active(first: u64, seconds: u64) -> KnownSource {
        (first + 1..first + seconds).fold(KnownSource::new(HASH, first), KnownSource::seen)
    }

    #[test]
    fn a_source_becomes_a_known_source_in_its_third_second() {
        let mut known = KnownSource::new(HASH, 100);
        for _ in 0..1_000 {
            known = known.seen(100);
        }
        assert!(!known.is_known());
        known = known.seen(101);
        assert!(!known.is_known());
        known = known.seen(105);
        assert!(known.is_known() && known.is(HASH) && !known.is(HASH ^ 1 << 40));
    }

    #[test]
    fn an_idle_source_is_remembered_for_longer_the_longer_it_was_active() {
        assert_eq!([1, 2, 3, 5, 10, 23, 24, 200].map(kept), [5, 8, 13, 29, 104, 533, 559, 559]);
        for seconds in 1..100 {
            let (known, last) = (active(7, seconds), 6 + seconds);
            let tenure = seconds.min(LONGEST);
            assert_eq!((known.tenure(), known.is_known()), (tenure, seconds >= SECONDS));
            assert!(!known.gives_way(last + kept(tenure)) && known.gives_way(last + kept(tenure) + 1));
            assert_eq!(known.seen(last + kept(tenure) + 1), KnownSource::new(HASH, last + kept(tenure) + 1));
        }
        assert!(KnownSource::default().gives_way(0));
    }

    #[test]
    fn a_proof_lasts_while_the_source_is_seen_and_ten_minutes_longer() {
        let mut proven = KnownSource::proven(HASH, 100);
        assert!(proven.is(HASH) && proven.is_known() && !active(100, 200).is_proven());
        for second in [100, 101, 102, 102 + KEPT] {
            proven = proven.seen(second);
            assert!(proven.is_proven() && proven.is_known() && proven.is(HASH), "{second}");
        }
        let last = 102 + KEPT;
        assert!(!proven.gives_way(last + KEPT) && proven.gives_way(last + KEPT + 1));
        assert_eq!(proven.seen(last + KEPT + 1), KnownSource::new(HASH, last + KEPT + 1));
    }

    #[test]
    fn known_sources_of_earlier_versions_keep_their_ten_minutes() {
        let earlier = KnownSource(in_word(HASH) | 3 << 24 | 100);
        assert!(earlier.is_known() && earlier.seen(101).is_known());
        assert_eq!((earlier.tenure(), earlier.seen(101).tenure()), (LONGEST, LONGEST));
        assert!(!earlier.gives_way(100 + KEPT));
    }

    #[test]
    fn a_source_belongs_to_one_of_the_cells_into_which_its_cell_is_divided() {
        for hash in [HASH, !HASH, 0, u64::MAX] {
            for (before, after) in [(1 << 12, 1 << 13), (1 << 17, 1 << 20), (1 << 14, 1 << 16)] {
                let known = KnownSource::proven(hash, 7);
                let parent = hash as usize % before;
                let children = (0..after / before).map(|part| parent + part * before);
                let homes: Vec<_> = children.filter(|child| known.belongs_to(*child, before, after)).collect();
                assert_eq!(homes, [hash as usize % after]);
            }
        }
        // Fewer cells, or cells of which the word tells nothing.
        let known = KnownSource::new(HASH, 1);
        assert!((0..8).all(|index| known.belongs_to(index, 16, 8) && known.belongs_to(index, 4, 8)));
    }

    #[test]
    fn seconds_that_go_around_or_backwards_forget_nobody() {
        let known = KnownSource::new(HASH, LAST_MASK - 1).seen(LAST_MASK).seen(0);
        assert!(known.is_known());
        assert!(!known.gives_way(LAST_MASK));
        assert!(known.seen(3).is_known());
        assert!(known.gives_way(LAST_MASK - BEHIND), "from the future");
    }

    #[test]
    fn cpus_whose_clocks_differ_count_no_second_twice() {
        let mut known = KnownSource::new(HASH, 100);
        for _ in 0..100 {
            known = known.seen(101).seen(100);
        }
        assert_eq!(known.tenure(), 2);
    }
}
