//! A cell's note of one source that is refused, so that the refusal is repeated without asking the source's own bucket.
//!
//! Two words that any CPU may write at any time. Each is bound to the other, so that halves of two notes make none, unless both end at the same
//! time.

use crate::{meters::gcra::Units, reason::Reason};

/// The longest that a note refuses: 73 minutes. Units go around, so what seems to end later has ended long ago.
pub const LONGEST: Units = 1 << 52;
/// An end that lies back further is [old](Note::is_old): 26 days.
const OLD: Units = 1 << 61;

/// Both words of a note.
///
/// `until`: 44 bits of the time (a microsecond apart), 20 of the generation. `check`, from the top: 42 bits of the source's hash exclusive-or the time, one
/// that says by which clock, two of what is done, two of the reason, 17 of the amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Note {
    /// When the refusal ends, and in which generation of the rules it was pronounced.
    pub until: u64,
    /// Who is refused, why, and packets from which length on.
    pub check: u64,
}

/// Everything that a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Hash of the source.
    pub hash: u64,
    /// Generation of the rules.
    pub generation: u32,
    /// When it ends.
    pub until: Units,
    /// By the precise clock. The other one lags, which a short burst does not allow.
    pub precise: bool,
    /// Why.
    pub reason: Reason,
    /// What is done with its packets: [`DROP`](crate::limits::policy::DROP), [`SHADOW`](crate::limits::policy::SHADOW),
    /// [`REJECT`](crate::limits::policy::REJECT) or [`WITHOUT_ROOM`].
    pub action: u8,
    /// Packets from this amount on, bytes or what they cost: a smaller one might fit.
    pub amount: u32,
}

/// [`Refusal::action`]: they are dropped while their interface has no room.
pub const WITHOUT_ROOM: u8 = 3;

const GENERATION_BITS: u32 = 20;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;
const HASH_SHIFT: u32 = 22;
const PRECISE: u64 = 1 << 21;
const ACTION_SHIFT: u32 = 19;
const REASON_SHIFT: u32 = 17;
const TWO_BITS: u64 = 3;
const AMOUNT_MASK: u64 = (1 << REASON_SHIFT) - 1;

/// The reasons that notes are about, by number.
const REASONS: [Reason; 4] = [Reason::OverPackets, Reason::OverBytes, Reason::Denied, Reason::Banned];

impl Note {
    /// Writes down a refusal. Its end is rounded down, so that it is never longer than pronounced.
    #[inline(always)]
    #[must_use]
    pub const fn new(refusal: Refusal) -> Self {
        let until = refusal.until & !GENERATION_MASK | refusal.generation as u64 & GENERATION_MASK;
        let reason = match refusal.reason {
            Reason::OverPackets => 0,
            Reason::OverBytes => 1,
            Reason::Denied => 2,
            _ => 3,
        };
        let precise = if refusal.precise { PRECISE } else { 0 };
        let action = (refusal.action as u64 & TWO_BITS) << ACTION_SHIFT;
        let what = precise | action | reason << REASON_SHIFT | refusal.amount as u64 & AMOUNT_MASK;
        Self { until, check: (refusal.hash ^ until) >> HASH_SHIFT << HASH_SHIFT | what }
    }

    /// Whether it is about this source, in force or not.
    #[inline(always)]
    #[must_use]
    pub const fn is_about(self, hash: u64) -> bool {
        (self.check ^ self.until ^ hash) >> HASH_SHIFT == 0
    }

    /// Whether a packet of this amount is refused at `now`, if the note is about its source.
    #[inline(always)]
    #[must_use]
    pub const fn refuses(self, generation: u32, now: Units, amount: u32) -> bool {
        amount as u64 >= self.check & AMOUNT_MASK && self.is_in_force(generation, now)
    }

    /// Whether it is about what packets cost, and not about their bytes.
    #[inline(always)]
    #[must_use]
    pub const fn is_of_packets(self) -> bool {
        self.check >> REASON_SHIFT & TWO_BITS == 0
    }

    /// Whether it is about a deny or a ban, and not about a limit.
    #[inline(always)]
    #[must_use]
    pub const fn is_of_all(self) -> bool {
        self.check >> REASON_SHIFT & TWO_BITS >= 2
    }

    /// What is done with its packets.
    #[inline(always)]
    #[must_use]
    pub const fn action(self) -> u8 {
        (self.check >> ACTION_SHIFT & TWO_BITS) as u8
    }

    /// Whether any packet is refused at `now`, of whatever source it is about.
    #[inline(always)]
    #[must_use]
    pub const fn is_in_force(self, generation: u32, now: Units) -> bool {
        (self.until ^ generation as u64) & GENERATION_MASK == 0 && self.is_ahead(now)
    }

    /// Whether it ended longer than `span` ago; one that is in force has not.
    #[inline(always)]
    #[must_use]
    pub const fn ended_before(self, now: Units, span: Units) -> bool {
        now.wrapping_sub(self.until & !GENERATION_MASK).cast_signed() > span.cast_signed()
    }

    /// Whether its end is ahead of `now`.
    #[inline(always)]
    #[must_use]
    pub const fn is_ahead(self, now: Units) -> bool {
        let left = (self.until & !GENERATION_MASK).wrapping_sub(now);
        left != 0 && left <= LONGEST
    }

    /// Whether it ended so long ago that its end has to be moved, before time goes around and it is ahead again.
    #[inline(always)]
    #[must_use]
    pub const fn is_old(self, now: Units) -> bool {
        let ago = now.wrapping_sub(self.until & !GENERATION_MASK);
        ago > OLD && ago < LONGEST.wrapping_neg()
    }

    /// The same note, ended `now`.
    #[inline(always)]
    #[must_use]
    pub const fn ended(self, now: Units) -> Self {
        let until = now & !GENERATION_MASK | self.until & GENERATION_MASK;
        Self { until, check: self.check ^ (self.until ^ until) >> HASH_SHIFT << HASH_SHIFT }
    }

    /// Whether it counts by the precise clock.
    #[inline(always)]
    #[must_use]
    pub const fn is_precise(self) -> bool {
        self.check & PRECISE != 0
    }

    /// Why.
    #[inline(always)]
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self.check >> REASON_SHIFT & TWO_BITS {
            0 => REASONS[0],
            1 => REASONS[1],
            2 => REASONS[2],
            _ => REASONS[3],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal() -> impl Strategy<Value = Refusal> {
        let reason = prop::sample::select(&REASONS[..]);
        (any::<u64>(), any::<u32>(), any::<u64>(), any::<bool>(), reason, 0..=WITHOUT_ROOM, 0u32..=1 << 16).prop_map(
            |(hash, generation, until, precise, reason, action, amount)| Refusal {
                hash,
                generation,
                until,
                precise,
                reason,
                action,
                amount,
            },
        )
    }

    proptest! {
        #[test]
        fn a_note_says_what_was_written_down(
            refusal in refusal(), before in 1u64..LONGEST - (1 << 20), after in prop_oneof![1u64..1 << 40, 1u64..LONGEST.wrapping_neg()],
            amount in 0u32..=1 << 16,
        ) {
            let Refusal { hash, generation, until, precise, reason, action, .. } = refusal;
            let note = Note::new(refusal);
            prop_assert!(note.is_about(hash));
            prop_assert!(!note.is_about(hash ^ 1 << HASH_SHIFT));
            prop_assert_eq!((note.reason(), note.is_precise(), note.action()), (reason, precise, action));
            prop_assert_eq!(note.is_of_packets(), reason == Reason::OverPackets);
        prop_assert_eq!(note.is_of_all(), matches!(reason, Reason::Denied | Reason::Banned));
            let now = until.wrapping_sub(before + (1 << 20));
            prop_assert_eq!(note.refuses(generation, now, amount), amount >= refusal.amount);
            prop_assert!(!note.refuses(generation.wrapping_add(1), now, 1 << 16));
            prop_assert!(!note.refuses(generation, until, 1 << 16));
            prop_assert!(!note.refuses(generation, until.wrapping_add(after), 1 << 16));
        }

        #[test]
        fn an_old_note_is_ended_and_says_the_same(refusal in refusal(), ago in OLD + (1 << 20)..LONGEST.wrapping_neg()) {
            let Refusal { hash, generation, until, precise, reason, .. } = refusal;
            let (note, now) = (Note::new(refusal), until.wrapping_add(ago));
            prop_assert!(note.is_old(now) || ago > LONGEST.wrapping_neg() - (1 << 20));
            let ended = note.ended(now);
            prop_assert!(ended.is_about(hash) && !ended.is_old(now) && !ended.refuses(generation, now, 1 << 16));
            prop_assert_eq!((ended.reason(), ended.is_precise()), (reason, precise));
        }

        /// Two CPUs may write at once. What they leave is about nobody, or ends when one of them said.
        #[test]
        fn halves_of_two_notes_make_none(one in refusal(), other in refusal(), is_same_source: bool) {
            let other = Refusal { hash: if is_same_source { one.hash } else { other.hash }, ..other };
            let (one_note, other_note) = (Note::new(one), Note::new(other));
            let torn = Note { until: one_note.until, check: other_note.check };
            let same_time = (one_note.until ^ other_note.until) >> HASH_SHIFT == 0;
            prop_assert!(!torn.is_about(other.hash) || same_time);
            prop_assert!(!torn.is_about(one.hash) || same_time || !is_same_source);
        }
    }

    #[test]
    fn an_empty_cell_refuses_nobody() {
        assert!(!Note::default().refuses(0, 1 << 30, 1_514));
    }
}
