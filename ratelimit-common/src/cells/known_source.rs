//! Known sources: sources that sent in several seconds, and not long ago. A cell remembers two of them. Forged sources
//! do not become known.

/// One remembered source in a word: 32 bits of its hash, 8 bits that count the seconds in which it was seen, 24 bits of
/// the last second. Zero is no source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownSource(pub u64);

/// Least number of seconds in which a known source was seen.
pub const SECONDS: u64 = 3;
/// Steps of [`second`] after its last packet for which a known source is remembered: ten minutes.
pub const KEPT: u64 = 559;
/// Steps of [`second`] after which a source that is not known yet gives way.
pub const CANDIDATE_KEPT: u64 = 4;

/// Steps that a CPU's clock can be behind another's.
const BEHIND: u64 = 4;

const LAST_BITS: u32 = 24;
const LAST_MASK: u64 = (1 << LAST_BITS) - 1;
const SEEN_MASK: u64 = 0xff;
const HASH_SHIFT: u32 = 32;

/// Returns the second of a time in nanoseconds, in steps of 2³⁰ ns (1.07 s). Its 24 bits wrap after 208 days.
#[inline(always)]
#[must_use]
pub const fn second(now: u64) -> u64 {
    now >> 30 & LAST_MASK
}

impl KnownSource {
    /// Creates a source that is seen for the first time.
    #[inline(always)]
    #[must_use]
    pub const fn new(hash: u64, second: u64) -> Self {
        Self(hash >> HASH_SHIFT << HASH_SHIFT | 1 << LAST_BITS | second)
    }

    /// Returns whether this is the source with that hash.
    #[inline(always)]
    #[must_use]
    pub const fn is(self, hash: u64) -> bool {
        (self.0 ^ hash) >> HASH_SHIFT == 0 && self.0 != 0
    }

    /// Returns whether the source was seen often enough to be known.
    #[inline(always)]
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.0 >> LAST_BITS & SEEN_MASK >= SECONDS
    }

    /// Returns whether the place is free for another source.
    #[inline(always)]
    #[must_use]
    pub const fn gives_way(self, second: u64) -> bool {
        self.0 == 0 || self.age(second) > if self.is_known() { KEPT } else { CANDIDATE_KEPT }
    }

    /// Returns this source after a packet in this second.
    #[inline(always)]
    #[must_use]
    pub const fn seen(self, second: u64) -> Self {
        if self.gives_way(second) {
            return Self::new(self.0, second);
        }
        if self.0 & LAST_MASK == second {
            return self;
        }
        let seen = self.0 >> LAST_BITS & SEEN_MASK;
        let seen = if seen < SECONDS { seen + 1 } else { seen };
        Self(self.0 >> HASH_SHIFT << HASH_SHIFT | seen << LAST_BITS | second)
    }

    /// Returns the steps since the last packet: 0 on a CPU whose clock is behind. A second further ahead is no source:
    /// the place may have held a cached refusal before unknown sources were limited.
    #[inline(always)]
    const fn age(self, second: u64) -> u64 {
        let age = second.wrapping_sub(self.0) & LAST_MASK;
        if age > LAST_MASK - BEHIND { 0 } else { age }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: u64 = 0xdead_beef_0123_4567;

    #[test]
    fn a_source_becomes_a_known_source_in_its_third_second_and_stays_one_for_ten_minutes() {
        let mut known = KnownSource::new(HASH, 100);
        for _ in 0..1_000 {
            known = known.seen(100);
        }
        assert!(!known.is_known());
        known = known.seen(101);
        assert!(!known.is_known());
        known = known.seen(105);
        assert!(known.is_known() && known.is(HASH) && !known.is(HASH ^ 1 << 40));
        assert!(!known.gives_way(105 + KEPT));
        assert!(known.seen(105 + KEPT).is_known());
        assert!(known.gives_way(105 + KEPT + 1));
        assert!(!known.seen(105 + KEPT + 1).is_known());
    }

    #[test]
    fn a_candidate_gives_way_after_a_few_seconds() {
        let candidate = KnownSource::new(HASH, 7).seen(8);
        assert!(!candidate.gives_way(8 + CANDIDATE_KEPT));
        assert!(candidate.gives_way(8 + CANDIDATE_KEPT + 1));
        assert!(KnownSource::default().gives_way(0));
    }

    #[test]
    fn seconds_that_go_around_or_backwards_forget_nobody() {
        let known = KnownSource::new(HASH, LAST_MASK - 1).seen(LAST_MASK).seen(0);
        assert!(known.is_known());
        assert!(!known.gives_way(LAST_MASK));
        assert!(known.seen(3).is_known());
        assert!(known.gives_way(LAST_MASK - BEHIND), "from the future");
    }
}
