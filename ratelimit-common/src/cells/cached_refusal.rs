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
/// the generation. The five highest of these are exclusive-or five others of the hash. `check` holds, from the top:
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
/// Lowest of the bits of a hash that neither `check` nor the index of 131,072 cells tells.
const UNTOLD_SHIFT: u32 = 17;
const UNTOLD_MASK: u64 = (1 << (HASH_SHIFT - UNTOLD_SHIFT)) - 1;
const MARK_SHIFT: u32 = GENERATION_BITS - (HASH_SHIFT - UNTOLD_SHIFT);
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
const OVER_SHARE: u64 = 7;

/// The number of each reason, at [`number_at`].
const NUMBERS: u64 = OVER_PACKETS << number_at(Reason::OverPackets)
    | OVER_BYTES << number_at(Reason::OverBytes)
    | OVER_PARENT_PACKETS << number_at(Reason::OverParent)
    | DENIED << number_at(Reason::Denied)
    | LISTED << number_at(Reason::Listed)
    | BANNED << number_at(Reason::Banned)
    | OVER_SHARE << number_at(Reason::OverShare);
const _: () = assert!(OVER_BYTES == OVER_PACKETS | 2 && OVER_PARENT_BYTES == OVER_PARENT_PACKETS | 2);

/// Returns the place of a reason's number in [`NUMBERS`]. Reasons that are not cached have none. A table of bits needs
/// fewer instructions than comparisons.
#[inline(always)]
const fn number_at(reason: Reason) -> u32 {
    (reason as u32).wrapping_sub(Reason::OverPackets as u32).wrapping_mul(3) & 63
}

/// Returns the bits of a hash that a source may share with none in its cell whose other bits are equal. So a refusal is
/// exact where the hash is: two IPv4 sources of one class never have the same, if 17 bits select the cell.
#[inline(always)]
const fn mark(hash: u64) -> u64 {
    (hash >> UNTOLD_SHIFT & UNTOLD_MASK) << MARK_SHIFT
}

impl CachedRefusal {
    /// Packs a refusal. The end is rounded down, so that the refusal never lasts longer than decided.
    #[inline(always)]
    #[must_use]
    pub const fn new(refusal: Refusal) -> Self {
        let of_a_peer = OF_A_PEER * refusal.of_a_peer as u64;
        let generation = (refusal.generation as u64 ^ mark(refusal.hash)) & GENERATION_MASK;
        let until = refusal.until & !NO_TIME | of_a_peer | generation;
        let number = NUMBERS >> number_at(refusal.reason) & REASON_MASK;
        let reason = number | (refusal.by_bytes as u64) << 1;
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

    /// Returns whether it refuses a packet of this amount at `now`, if it [is about](Self::is_about) the source with this
    /// hash.
    #[inline(always)]
    #[must_use]
    pub const fn refuses(self, hash: u64, generation: u32, now: Units, amount: u32) -> bool {
        (amount as u64 >= self.check & AMOUNT_MASK || self.refuses_everything()) && self.holds(hash, generation, now)
    }

    /// Returns whether it refuses packets at `now`, if it [is about](Self::is_about) the source with this hash.
    #[inline(always)]
    #[must_use]
    pub const fn holds(self, hash: u64, generation: u32, now: Units) -> bool {
        (self.until ^ generation as u64 ^ mark(hash)) & GENERATION_MASK == 0 && self.is_ahead(now)
    }

    /// Returns whether its amount counts the cost of packets, and not their bytes.
    #[inline(always)]
    #[must_use]
    pub const fn counts_packets(self) -> bool {
        self.check >> REASON_SHIFT & (OVER_BYTES | DENIED) == 0
    }

    /// Returns whether it refuses packets of any amount: it comes from a deny, a list, a ban or a share of a limit.
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

    /// Returns whether it refuses packets of its source at `now`, whichever that is. The lower bits of the generation tell
    /// it, so one of many rule changes ago may seem to.
    #[inline(always)]
    #[must_use]
    pub const fn is_in_force(self, generation: u32, now: Units) -> bool {
        (self.until ^ generation as u64) & ((1 << MARK_SHIFT) - 1) == 0 && self.is_ahead(now)
    }

    /// Returns whether it ended longer than `span` ago.
    #[inline(always)]
    #[must_use]
    pub const fn ended_before(self, now: Units, span: Units) -> bool {
        now.wrapping_sub(self.until & !NO_TIME).cast_signed() > span.cast_signed()
    }

    /// Returns the time until its end, which is [ahead](Self::is_ahead).
    #[inline(always)]
    #[must_use]
    pub const fn left(self, now: Units) -> Units {
        (self.until & !NO_TIME).wrapping_sub(now)
    }

    /// Returns whether its end is ahead of `now`.
    #[inline(always)]
    #[must_use]
    pub const fn is_ahead(self, now: Units) -> bool {
        let left = self.left(now);
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
        if self.check >> REASON_SHIFT & REASON_MASK == OVER_SHARE { Reason::OverShare } else { self.without_shares() }
    }

    /// Returns its reason where no source has a share of a limit.
    #[inline(always)]
    #[must_use]
    pub const fn without_shares(self) -> Reason {
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
mod tests;
