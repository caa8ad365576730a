//! A line of the table of refusals. A word of eight bytes refuses every packet of a source, so that many sources fit
//! into the nearest cache.
//!
//! The first word of a line is its [`Head`]: the generation of the rules in which all refusals of the line were
//! decided, and the time from which their ends count. A refusal that is written in another generation, or long after,
//! first empties the line. So no refusal ever seems to be of another time.

use crate::{
    buckets::bucket::GENERATION_BITS,
    identity::source::{IPV4, Source},
    maps::names::REFUSAL_LINES,
    reason::Reason,
};

/// Words of a line behind its head.
pub const WORDS: usize = 7;
/// Words that can have the refusal of one source.
pub const CHOICES: usize = 4;

/// Binary logarithm of the nanoseconds of a step of an end: 1.05 ms.
const STEP_SHIFT: u32 = 20;
/// Steps from the head's time within which a line takes refusals: 34 s. Ends are as far ahead at least.
const TAKEN: u64 = 1 << 15;
/// Largest end: 69 s after the head's time.
const LAST: u64 = (1 << END_BITS) - 1;

/// The bits of a head that are time.
const TIME_MASK: u64 = u64::MAX >> GENERATION_BITS;

const END_BITS: u32 = 16;
const REASON_SHIFT: u32 = END_BITS;
const REASON_BITS: u32 = 5;
const CHECKED_SHIFT: u32 = REASON_SHIFT + REASON_BITS;
const CHECKED_BITS: u32 = 7;
const TAG_SHIFT: u32 = CHECKED_SHIFT + CHECKED_BITS;
const TAG_BITS: u32 = u64::BITS - TAG_SHIFT;

const DENIED: u64 = Reason::Denied as u64;
const BANNED: u64 = Reason::Banned as u64;
const OVER_PARENT: u64 = Reason::OverParent as u64;
const OVER_SHARE: u64 = Reason::OverShare as u64;
const NOT_ADMITTED: u64 = Reason::NotAdmitted as u64;
const _: () = assert!(crate::reason::REASONS <= 1 << REASON_BITS);

/// Fewest bits of a key that select the line. The others are in the word.
const LINE_BITS: u32 = 13;
const _: () = assert!(REFUSAL_LINES >= 1 << LINE_BITS && REFUSAL_LINES.is_power_of_two());
/// Bits of a key.
const KEY_BITS: u32 = LINE_BITS + TAG_BITS;
const CLASS_SHIFT: u32 = 32;
const IS_IPV4: u64 = 1 << (CLASS_SHIFT + u16::BITS);
const _: () = assert!(IS_IPV4 == 1 << (KEY_BITS - 1));

/// Binary logarithm of the nanoseconds between two looks at the connections of a source: 0.54 s to twice as long.
const CHECK_SHIFT: u32 = 29;
const CHECKED_MASK: u64 = (1 << CHECKED_BITS) - 1;

/// What a source with its narrowest service is in the table, by the lowest 49 bits. Two IPv4 sources never have the same,
/// other pairs with a probability of 2⁻⁴⁹.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(pub u64);

impl Key {
    /// Returns the key of a source with this hash. Each step for IPv4 can be undone. Without the seed, no sender can aim
    /// at a line.
    #[inline(always)]
    #[must_use]
    pub const fn of(source: &Source, hash: u64, seed: &[u64; 4]) -> Self {
        if source.family != IPV4 {
            return Self(hash);
        }
        let word = (source.first_word() ^ seed[2] as u32).wrapping_mul(seed[0] as u32 | 1);
        let word = (word ^ word >> 15).wrapping_mul(seed[1] as u32 | 1);
        let word = (word ^ word >> 16).wrapping_mul(seed[3] as u32 | 1);
        Self(IS_IPV4 | (source.class as u64) << CLASS_SHIFT | (word ^ word >> 15) as u64)
    }

    /// Returns the index of the line, of `lines` (a power of two).
    #[inline(always)]
    #[must_use]
    pub const fn line(self, lines: u32) -> u32 {
        self.0 as u32 & lines.wrapping_sub(1)
    }

    /// Returns the first of the [choices](CHOICES): the first or the last words of the line.
    #[inline(always)]
    #[must_use]
    pub const fn first_choice(self) -> usize {
        (WORDS - CHOICES) * (self.0 >> 31 & 1) as usize
    }

    /// Returns the hash of the source, which may have another class by now.
    #[inline(always)]
    #[must_use]
    pub const fn hash(self, source: &Source, seed: &[u64; 4]) -> u64 {
        if source.family != IPV4 {
            return self.0;
        }
        let mut narrowest = *source;
        narrowest.class = (self.0 >> CLASS_SHIFT) as u16;
        narrowest.hash(seed)
    }

    const fn tag(self) -> u64 {
        self.0 << (u64::BITS - KEY_BITS) >> (u64::BITS - TAG_BITS)
    }
}

/// The first word of a line: from the top 26 bits of the generation, and 38 of the time, in [steps](TAKEN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head(pub u64);

impl Head {
    /// Creates the head of a line that is empty at `now`, in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub const fn new(generation: u32, now: u64) -> Self {
        Self((generation as u64) << (u64::BITS - GENERATION_BITS) | now >> STEP_SHIFT & TIME_MASK)
    }

    /// Returns the head of the line while its words change: that of a generation half of all generations away.
    #[inline(always)]
    #[must_use]
    pub const fn of_no_time(self) -> Self {
        Self(self.0 ^ 1 << (u64::BITS - 1))
    }

    /// Returns the steps since the head's time. They are more than any end if it is of another generation.
    #[inline(always)]
    #[must_use]
    pub const fn steps(self, generation: u32, now: u64) -> u64 {
        Self::new(generation, now).0.wrapping_sub(self.0)
    }

    /// Returns the steps since the head's time, whatever its generation.
    #[inline(always)]
    #[must_use]
    pub const fn steps_of_time(self, now: u64) -> u64 {
        Self::new(0, now).0.wrapping_sub(self.0) & TIME_MASK
    }

    /// Returns whether the line takes further refusals after so many steps.
    #[inline(always)]
    #[must_use]
    pub const fn takes(steps: u64) -> bool {
        steps < TAKEN
    }
}

/// The refusal of a source, which refuses every packet. From the top: 36 bits of its key, seven of the time at which
/// its connections were looked at, five of the reason, 16 of the end. Zero is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalWord(pub u64);

impl RefusalWord {
    /// Creates the refusal of a source, which ends `left` nanoseconds after the packet, so many steps after the time of
    /// the line. Returns none if it would end at once.
    #[inline(always)]
    #[must_use]
    pub const fn new(key: Key, reason: Reason, steps: u64, left: u64) -> Option<Self> {
        // Rounded down, so that it never lasts longer than decided.
        let left = left >> STEP_SHIFT;
        if left == 0 {
            return None;
        }
        let end = if left < LAST - steps { steps + left } else { LAST };
        Some(Self(key.tag() << TAG_SHIFT | (reason as u64) << REASON_SHIFT | end))
    }

    /// Returns all ones if it is about the source with this key, in force or not, and zero otherwise: which of several
    /// words it is, no processor can predict.
    #[inline(always)]
    #[must_use]
    pub const fn mask_if_about(self, key: Key) -> u64 {
        let difference = self.0 >> TAG_SHIFT ^ key.tag();
        (difference.wrapping_sub(1).cast_signed() >> (u64::BITS - 1)).cast_unsigned()
    }

    /// Returns whether it refuses packets so many steps after the time of its line.
    #[inline(always)]
    #[must_use]
    pub const fn is_in_force(self, steps: u64) -> bool {
        steps < self.0 & LAST
    }

    /// Returns whether it is by a limit, and was in force within this time, in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub const fn has_limited_within(self, steps: u64, time: u64) -> bool {
        let is_by_limit = !matches!(self.reason(), Reason::Denied | Reason::Banned | Reason::NotAdmitted);
        self.0 != 0 && is_by_limit && steps < (self.0 & LAST) + (time >> STEP_SHIFT)
    }

    /// Returns the same refusal behind another head: zero if it has ended, and without further time if that is of
    /// another generation.
    #[inline(always)]
    #[must_use]
    pub const fn moved(self, before: Head, head: Head) -> Self {
        let steps = head.0.wrapping_sub(before.0) & TIME_MASK;
        if !self.is_in_force(steps) {
            Self(0)
        } else if (head.0 ^ before.0) & !TIME_MASK == 0 {
            Self(self.0 - steps)
        } else {
            Self(self.0 & !LAST)
        }
    }

    /// Returns its reason.
    #[inline(always)]
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self.0 >> REASON_SHIFT & ((1 << REASON_BITS) - 1) {
            DENIED => Reason::Denied,
            BANNED => Reason::Banned,
            OVER_PARENT => Reason::OverParent,
            OVER_SHARE => Reason::OverShare,
            NOT_ADMITTED => Reason::NotAdmitted,
            _ => Reason::OverPackets,
        }
    }

    /// Returns the same refusal after the connections of its source were looked at.
    #[inline(always)]
    #[must_use]
    pub const fn checked_at(self, now: u64) -> Self {
        let checked = (now >> CHECK_SHIFT & CHECKED_MASK) << CHECKED_SHIFT;
        Self(self.0 & !(CHECKED_MASK << CHECKED_SHIFT) | checked)
    }

    /// Returns whether the connections of its source were looked at within the last second.
    #[inline(always)]
    #[must_use]
    pub const fn is_checked(self, now: u64) -> bool {
        (now >> CHECK_SHIFT).wrapping_sub(self.0 >> CHECKED_SHIFT) & CHECKED_MASK <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the key of an address.
    fn key(address: [u8; 4], class: u8, seed: [u64; 4]) -> Key {
        let source = Source::v4(address).of_class(class);
        Key::of(&source, source.hash(&seed), &seed)
    }

    proptest! {
        #[test]
        fn a_key_tells_each_ipv4_source_from_all_others(
            one: [u8; 4], other: [u8; 4], classes: [u8; 2], seed: [u64; 4],
        ) {
            let (first, second) = (key(one, classes[0], seed), key(other, classes[1], seed));
            prop_assert_eq!(first == second, (one, classes[0]) == (other, classes[1]));
            // What the word has and what selects the line are the whole key.
            let is_same = first.tag() == second.tag() && first.line(1 << LINE_BITS) == second.line(1 << LINE_BITS);
            prop_assert_eq!(is_same, first == second);
        }

        #[test]
        fn a_key_tells_the_hash_of_its_source(address: [u8; 16], prefix in 0u8..=128, classes: [u8; 2], seed: [u64; 4]) {
            let [a, b, c, d, ..] = address;
            for source in [Source::v4([a, b, c, d]), Source::v6(address, prefix)] {
                let hash = source.of_class(classes[0]).hash(&seed);
                let key = Key::of(&source.of_class(classes[0]), hash, &seed);
                prop_assert_eq!(key.hash(&source.of_class(classes[1]), &seed), hash);
            }
        }

        #[test]
        fn a_refusal_lasts_no_longer_than_decided_and_at_most_a_step_less(
            generation: u32, begin in 0u64..1 << 58, age in 0..34 * SECOND, left in 0..200 * SECOND, key: u64,
            later in 0..300 * SECOND, reason in prop::sample::select(&[Reason::OverPackets, Reason::Banned][..]),
        ) {
            let (head, now) = (Head::new(generation, begin), begin + age);
            let steps = head.steps(generation, now);
            prop_assert!(Head::takes(steps));
            let Some(refusal) = RefusalWord::new(Key(key), reason, steps, left) else {
                prop_assert!(left < 1 << STEP_SHIFT);
                return Ok(());
            };
            prop_assert_eq!(refusal.reason(), reason);
            prop_assert_eq!(refusal.mask_if_about(Key(key)), u64::MAX);
            prop_assert_eq!(refusal.mask_if_about(Key(key ^ 1 << LINE_BITS)), 0);
            let at = |time| refusal.is_in_force(head.steps(generation, time));
            prop_assert!(!at(now + left.max(1) + (1 << STEP_SHIFT)));
            prop_assert!(at(now) || left < 2 << STEP_SHIFT);
            let most = left.min(33 * SECOND);
            prop_assert!(most < 2 << STEP_SHIFT || at(now + most - (2 << STEP_SHIFT)));
            // Never in another generation, nor again.
            prop_assert!(!refusal.is_in_force(head.steps(generation.wrapping_add(1), now + later)));
            prop_assert!(later <= left || !at(now + later + (1 << STEP_SHIFT)));
            // Behind a later head it ends at the same time.
            let moved_at = now + later;
            let next = Head::new(generation, moved_at);
            let moved = refusal.moved(head, next);
            prop_assert_eq!(moved.is_in_force(next.steps(generation, moved_at)), at(moved_at));
            let other = Head::new(generation.wrapping_add(1), moved_at);
            prop_assert!(!refusal.moved(head, other).is_in_force(0));
        }

        #[test]
        fn connections_are_looked_at_again_within_a_second(now in 0u64..1 << 58, later in 0..60 * SECOND, word: u64) {
            let checked = RefusalWord(word).checked_at(now);
            prop_assert_eq!(checked.0 & !(CHECKED_MASK << CHECKED_SHIFT), word & !(CHECKED_MASK << CHECKED_SHIFT));
            let is_checked = checked.is_checked(now + later);
            prop_assert!(is_checked || later > SECOND / 2);
            prop_assert!(!is_checked || later < 11 * SECOND / 10);
        }

        #[test]
        fn a_limit_that_refused_is_remembered_across_heads(generation: u32, begin in 0u64..1 << 58, key: u64) {
            let (head, quiet) = (Head::new(generation, begin), 10 * SECOND);
            let refusal = RefusalWord::new(Key(key), Reason::OverPackets, 0, 5 * SECOND).unwrap();
            let at = |head: Head, word: RefusalWord, seconds| {
                word.has_limited_within(head.steps_of_time(begin + seconds * SECOND), quiet)
            };
            prop_assert!(at(head, refusal, 4) && at(head, refusal, 14) && !at(head, refusal, 16));
            let other = Head::new(generation.wrapping_add(1), begin + 4 * SECOND);
            prop_assert!(at(other, refusal.moved(head, other), 13) && !at(other, refusal.moved(head, other), 15));
            let denied = RefusalWord::new(Key(key), Reason::Denied, 0, 5 * SECOND).unwrap();
            prop_assert!(!at(head, denied, 4));
        }
    }

    #[test]
    fn an_empty_line_refuses_nothing() {
        for (generation, now) in [(0, 0), (0, 1), (0, SECOND), (1, 0), (u32::MAX, u64::MAX)] {
            assert!(!RefusalWord(0).is_in_force(Head(0).steps(generation, now)));
        }
        let head = Head::new(7, SECOND);
        assert!(!Head::takes(head.of_no_time().steps(7, SECOND)));
    }

    /// Neighbours lie in different lines, and choose among all words.
    #[test]
    fn keys_spread_neighbours() {
        let seed = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
        let mut lines = [0_u32; 1 << 10];
        let mut first = 0;
        for number in 0..1 << 16_u32 {
            let key = key((0x0a00_0000_u32 + number).to_be_bytes(), 0, seed);
            lines[key.line(1 << 10) as usize] += 1;
            first += usize::from(key.first_choice() == 0);
        }
        assert!(lines.iter().all(|count| (20..=128).contains(count)), "{lines:?}");
        assert!((30_000..=35_000).contains(&first), "{first}");
    }
}
