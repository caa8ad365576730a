//! A cell's cached refusal of one source. The cell repeats the refusal without the source's own bucket.
//!
//! Any CPU may write the two words at any time. Each word is bound to the other, so halves of two cached refusals match
//! no source, unless both end at the same time.

use crate::{meters::gcra::Units, reason::Reason};

/// Longest time that a cached refusal lasts: 73 minutes. Units wrap, so an end that is further ahead lies in the past.
pub const LONGEST: Units = 1 << 52;
/// Age of an end from which on the cached refusal is [old](CachedRefusal::is_old): 26 days.
const OLD: Units = 1 << 61;

/// Both words of a cached refusal.
///
/// `until` holds 44 bits of the time (a microsecond apart), one bit for own connections of the source, and 19 bits of
/// the generation. `check` holds, from the top:
/// 42 bits of the source's hash exclusive-or the time, one bit for the clock, two for the action, three for the reason,
/// 16 for the amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CachedRefusal {
    /// End of the refusal, and the generation of the rules in which it was decided.
    pub until: u64,
    /// Source, reason, and the amount from which on packets are refused.
    pub check: u64,
}

/// Content of a cached refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Hash of the source.
    pub hash: u64,
    /// Generation of the rules.
    pub generation: u32,
    /// End of the refusal.
    pub until: Units,
    /// `true` if the precise clock counts. The coarse clock lags, which a short burst does not allow.
    pub precise: bool,
    /// Reason of the refusal.
    pub reason: Reason,
    /// `true` if own connections of this host got packets from the source. The refusal does not hold for theirs.
    pub of_a_peer: bool,
    /// `true` if a limit of bytes refuses.
    pub by_bytes: bool,
    /// Action for the packets: [`DROP`](crate::limits::policy::DROP), [`SHADOW`](crate::limits::policy::SHADOW),
    /// [`REJECT`](crate::limits::policy::REJECT) or [`WITHOUT_ROOM`].
    pub action: u8,
    /// Least amount that is refused, in bytes or in the packets' cost, up to 65,535. A smaller packet might fit. For
    /// [`Reason::Listed`] the number of the list, which refuses every packet.
    pub amount: u32,
}

/// [`Refusal::action`]: packets are dropped while their interface has no room.
pub const WITHOUT_ROOM: u8 = 3;

const GENERATION_BITS: u32 = 19;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;
const OF_A_PEER: u64 = 1 << GENERATION_BITS;
/// The bits of `until` that are no time.
const NO_TIME: u64 = OF_A_PEER | GENERATION_MASK;
const HASH_SHIFT: u32 = 22;
const PRECISE: u64 = 1 << 21;
const ACTION_SHIFT: u32 = 19;
const REASON_SHIFT: u32 = 16;
const ACTION_MASK: u64 = 3;
const REASON_MASK: u64 = 7;
const AMOUNT_MASK: u64 = (1 << REASON_SHIFT) - 1;

// Numbers of the reasons.
const OVER_PACKETS: u64 = 0;
const OVER_PARENT_PACKETS: u64 = 1;
const OVER_BYTES: u64 = 2;
const OVER_PARENT_BYTES: u64 = 3;
const DENIED: u64 = 4;
const LISTED: u64 = 5;
const BANNED: u64 = 6;

impl CachedRefusal {
    /// Packs a refusal. The end is rounded down, so that the refusal never lasts longer than decided.
    #[inline(always)]
    #[must_use]
    pub const fn new(refusal: Refusal) -> Self {
        let of_a_peer = OF_A_PEER * refusal.of_a_peer as u64;
        let until = refusal.until & !NO_TIME | of_a_peer | refusal.generation as u64 & GENERATION_MASK;
        let reason = match refusal.reason {
            Reason::OverPackets => OVER_PACKETS,
            Reason::OverBytes => OVER_BYTES,
            Reason::OverParent if refusal.by_bytes => OVER_PARENT_BYTES,
            Reason::OverParent => OVER_PARENT_PACKETS,
            Reason::Denied => DENIED,
            Reason::Listed => LISTED,
            _ => BANNED,
        };
        let amount = if refusal.amount as u64 > AMOUNT_MASK { AMOUNT_MASK } else { refusal.amount as u64 };
        let precise = if refusal.precise { PRECISE } else { 0 };
        let action = (refusal.action as u64 & ACTION_MASK) << ACTION_SHIFT;
        let what = precise | action | reason << REASON_SHIFT | amount;
        Self { until, check: (refusal.hash ^ until) >> HASH_SHIFT << HASH_SHIFT | what }
    }

    /// Returns whether it is about the source with this hash, in force or not.
    #[inline(always)]
    #[must_use]
    pub const fn is_about(self, hash: u64) -> bool {
        (self.check ^ self.until ^ hash) >> HASH_SHIFT == 0
    }

    /// Returns whether it refuses a packet of this amount at `now`, if it is about the packet's source.
    #[inline(always)]
    #[must_use]
    pub const fn refuses(self, generation: u32, now: Units, amount: u32) -> bool {
        (amount as u64 >= self.check & AMOUNT_MASK || self.refuses_everything()) && self.is_in_force(generation, now)
    }

    /// Returns whether its amount counts the cost of packets, and not their bytes.
    #[inline(always)]
    #[must_use]
    pub const fn counts_packets(self) -> bool {
        self.check >> REASON_SHIFT & (OVER_BYTES | DENIED) == 0
    }

    /// Returns whether it comes from a deny, a list or a ban, and not from a limit.
    #[inline(always)]
    #[must_use]
    pub const fn refuses_everything(self) -> bool {
        self.check >> REASON_SHIFT & DENIED != 0
    }

    /// Returns the action for its packets.
    #[inline(always)]
    #[must_use]
    pub const fn action(self) -> u8 {
        (self.check >> ACTION_SHIFT & ACTION_MASK) as u8
    }

    /// Returns whether it refuses packets of its source at `now`.
    #[inline(always)]
    #[must_use]
    pub const fn is_in_force(self, generation: u32, now: Units) -> bool {
        (self.until ^ generation as u64) & GENERATION_MASK == 0 && self.is_ahead(now)
    }

    /// Returns whether it ended longer than `span` ago.
    #[inline(always)]
    #[must_use]
    pub const fn ended_before(self, now: Units, span: Units) -> bool {
        now.wrapping_sub(self.until & !NO_TIME).cast_signed() > span.cast_signed()
    }

    /// Returns whether its end is ahead of `now`.
    #[inline(always)]
    #[must_use]
    pub const fn is_ahead(self, now: Units) -> bool {
        let left = (self.until & !NO_TIME).wrapping_sub(now);
        left != 0 && left <= LONGEST
    }

    /// Returns whether it ended so long ago that its end must be moved. Otherwise time wraps and the end is ahead
    /// again.
    #[inline(always)]
    #[must_use]
    pub const fn is_old(self, now: Units) -> bool {
        let ago = now.wrapping_sub(self.until & !NO_TIME);
        ago > OLD && ago < LONGEST.wrapping_neg()
    }

    /// Returns the same cached refusal with its end at `now`.
    #[inline(always)]
    #[must_use]
    pub const fn ended(self, now: Units) -> Self {
        let until = now & !NO_TIME | self.until & NO_TIME;
        Self { until, check: self.check ^ (self.until ^ until) >> HASH_SHIFT << HASH_SHIFT }
    }

    /// Returns whether own connections of this host got packets from its source.
    #[inline(always)]
    #[must_use]
    pub const fn is_of_a_peer(self) -> bool {
        self.until & OF_A_PEER != 0
    }

    /// Returns whether it goes by the precise clock.
    #[inline(always)]
    #[must_use]
    pub const fn is_precise(self) -> bool {
        self.check & PRECISE != 0
    }

    /// Returns its reason.
    #[inline(always)]
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self.check >> REASON_SHIFT & REASON_MASK {
            OVER_PACKETS => Reason::OverPackets,
            OVER_BYTES => Reason::OverBytes,
            OVER_PARENT_PACKETS | OVER_PARENT_BYTES => Reason::OverParent,
            DENIED => Reason::Denied,
            LISTED => Reason::Listed,
            _ => Reason::Banned,
        }
    }

    /// Returns the number of the list that refuses, if its reason is [`Reason::Listed`].
    #[inline(always)]
    #[must_use]
    pub const fn list(self) -> u32 {
        (self.check & AMOUNT_MASK) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal() -> impl Strategy<Value = Refusal> {
        let reason = prop::sample::select(&[
            (Reason::OverPackets, false),
            (Reason::OverBytes, true),
            (Reason::OverParent, false),
            (Reason::OverParent, true),
            (Reason::Denied, false),
            (Reason::Listed, false),
            (Reason::Banned, false),
        ]);
        (any::<u64>(), any::<u32>(), any::<u64>(), any::<[bool; 2]>(), reason, 0..=WITHOUT_ROOM, 0u32..1 << 16)
            .prop_map(|(hash, generation, until, [precise, of_a_peer], (reason, by_bytes), action, amount)| Refusal {
                hash,
                generation,
                until,
                precise,
                of_a_peer,
                reason,
                by_bytes,
                action,
                amount,
            })
    }

    proptest! {
        #[test]
        fn a_cached_refusal_says_what_was_written(
            refusal in refusal(), before in 1u64..LONGEST - (1 << 20), after in prop_oneof![1u64..1 << 40, 1u64..LONGEST.wrapping_neg()],
            amount in 0u32..=1 << 16,
        ) {
            let Refusal { hash, generation, until, precise, of_a_peer, reason, by_bytes, action, .. } = refusal;
            let cached = CachedRefusal::new(refusal);
            prop_assert!(cached.is_about(hash));
            prop_assert!(!cached.is_about(hash ^ 1 << HASH_SHIFT));
            prop_assert_eq!((cached.reason(), cached.is_precise(), cached.action()), (reason, precise, action));
            prop_assert_eq!(cached.is_of_a_peer(), of_a_peer);
            let refuses_everything = matches!(reason, Reason::Denied | Reason::Listed | Reason::Banned);
            prop_assert_eq!(cached.refuses_everything(), refuses_everything);
            prop_assert_eq!(cached.counts_packets(), !by_bytes && !refuses_everything);
            let now = until.wrapping_sub(before + (1 << 20));
            prop_assert_eq!(cached.refuses(generation, now, amount), refuses_everything || amount >= refusal.amount);
            prop_assert_eq!(cached.list(), refusal.amount);
            prop_assert!(!cached.refuses(generation.wrapping_add(1), now, 1 << 16));
            prop_assert!(!cached.refuses(generation, until, 1 << 16));
            prop_assert!(!cached.refuses(generation, until.wrapping_add(after), 1 << 16));
        }

        #[test]
        fn an_old_cached_refusal_is_ended_and_says_the_same(refusal in refusal(), ago in OLD + (1 << 20)..LONGEST.wrapping_neg()) {
            let Refusal { hash, generation, until, precise, of_a_peer, reason, .. } = refusal;
            let (cached, now) = (CachedRefusal::new(refusal), until.wrapping_add(ago));
            prop_assert!(cached.is_old(now) || ago > LONGEST.wrapping_neg() - (1 << 20));
            let ended = cached.ended(now);
            prop_assert!(ended.is_about(hash) && !ended.is_old(now) && !ended.refuses(generation, now, 1 << 16));
            prop_assert_eq!((ended.reason(), ended.is_precise(), ended.is_of_a_peer()), (reason, precise, of_a_peer));
        }

        /// Two CPUs may write at once. The result matches no source, or ends when one of them said.
        #[test]
        fn halves_of_two_cached_refusals_make_none(one in refusal(), other in refusal(), is_same_source: bool) {
            let other = Refusal { hash: if is_same_source { one.hash } else { other.hash }, ..other };
            let (first, second) = (CachedRefusal::new(one), CachedRefusal::new(other));
            let torn = CachedRefusal { until: first.until, check: second.check };
            let same_time = (first.until ^ second.until) >> HASH_SHIFT == 0;
            prop_assert!(!torn.is_about(other.hash) || same_time);
            prop_assert!(!torn.is_about(one.hash) || same_time || !is_same_source);
        }
    }

    #[test]
    fn the_largest_frame_is_refused_by_the_largest_amount() {
        let (hash, until, reason, amount) = (1 << 40, 1 << 40, Reason::OverBytes, 1 << 16);
        let [precise, of_a_peer, by_bytes] = [false, false, true];
        let refusal = Refusal { hash, generation: 1, until, precise, of_a_peer, reason, by_bytes, action: 0, amount };
        let cached = CachedRefusal::new(refusal);
        assert!(cached.refuses(1, 1 << 39, 1 << 16) && !cached.refuses(1, 1 << 39, (1 << 16) - 2));
        assert_eq!(cached.reason(), Reason::OverBytes);
    }

    #[test]
    fn an_empty_cell_refuses_no_source() {
        assert!(!CachedRefusal::default().refuses(0, 1 << 30, 1_514));
    }
}
