//! Counts in windows of the clock: the fixed and the sliding window, one word each.
//!
//! A window's number is the time divided by its length, rounded down. A *fixed window* counts the packets of the
//! running window only. So around the edge of two windows, up to twice the limit may pass within one length. A *sliding
//! window* adds the count of the window before, weighted by the part of it that lies less than one length back.
//!
//! A packet that counts as more than the whole limit is admitted when nothing is counted, as in
//! [`crate::meters::gcra`]. Otherwise it would never pass.
//!
//! CPUs do not read the clock in the order in which they change a state. A packet that finds the next window begun is
//! counted there.
//!
//! Window numbers wrap. A source that was silent for exactly 2²² fixed windows (48 days of seconds) or 2¹⁴ sliding ones
//! (four and a half hours) may find its old count again.

use crate::{
    boundary,
    meters::{
        meter::MAX_FRAME,
        state::{FIXED, KIND_BITS, SLIDING, kind},
    },
};

/// Largest count of a fixed window: 2⁴⁰ − 1, less the largest packet.
pub const FIXED_MOST: u64 = (1 << 40) - 1 - (1 << 16);
/// Largest count of a sliding window: 2²⁴ − 1, less the largest packet.
pub const SLIDING_MOST: u64 = (1 << 24) - 1 - (1 << 16);
/// Bound of a sliding window's limit times its length in nanoseconds, so that weighing is exact in 64 bits.
pub const SLIDING_PRODUCT: u128 = 1 << 62;

/// One limit by windows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Window {
    /// Packets or bytes in a window; 0 is no limit.
    pub limit: u64,
    /// Nanoseconds.
    pub length: u64,
    /// Nanoseconds that are added to the clock before the division, so that windows begin with the hours of a day.
    pub phase: u64,
}
boundary!(Window, size 24);

/// Counts of a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// In the window before.
    previous: u64,
    /// In the running one.
    current: u64,
    /// Nanoseconds since that began.
    elapsed: u64,
    /// Its number.
    number: u64,
}

const FIXED_NUMBER_BITS: u32 = 22;
const FIXED_COUNT_SHIFT: u32 = KIND_BITS + FIXED_NUMBER_BITS;
const SLIDING_NUMBER_BITS: u32 = 14;
const PREVIOUS_SHIFT: u32 = KIND_BITS + SLIDING_NUMBER_BITS;
const COUNT_BITS: u32 = 24;
const CURRENT_SHIFT: u32 = PREVIOUS_SHIFT + COUNT_BITS;

impl Window {
    /// Creates a window of so many packets or bytes in `length` nanoseconds.
    #[must_use]
    pub const fn new(limit: u64, length: u64, phase: u64) -> Self {
        Self { limit, length, phase }
    }

    /// Returns whether this limit exists.
    #[inline(always)]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.limit != 0
    }

    /// Returns the room of a count of this [kind](crate::meters::state) above the limit, in the word of the state, and
    /// what one packet or byte adds to that word.
    #[inline(always)]
    #[must_use]
    pub const fn room(&self, kind: u64) -> (u64, u64) {
        let shift = if kind == FIXED { FIXED_COUNT_SHIFT } else { CURRENT_SHIFT };
        // The largest packet passes an empty window of any limit.
        let counted = if self.limit > MAX_FRAME as u64 { self.limit } else { MAX_FRAME as u64 };
        ((u64::MAX >> shift).saturating_sub(counted) << shift, 1 << shift)
    }

    /// Returns the number of the window at `now` (nanoseconds), and the time since its begin.
    #[inline(always)]
    #[must_use]
    pub const fn place(&self, now: u64) -> (u64, u64) {
        let time = now.wrapping_add(self.phase);
        match time.checked_div(self.length) {
            Some(number) => (number, time.wrapping_sub(number.wrapping_mul(self.length))),
            None => (0, 0),
        }
    }

    /// Asks a fixed window for `cost`. Returns the state to store if it is admitted.
    #[inline(always)]
    #[must_use]
    pub const fn ask_fixed(&self, state: u64, now: u64, cost: u64) -> Option<u64> {
        let (count, number) = self.fixed(state, now);
        if count != 0 && count + cost > self.limit {
            return None;
        }
        Some((count + cost) << FIXED_COUNT_SHIFT | number << KIND_BITS | FIXED)
    }

    /// Returns the count of a fixed window, and its number.
    #[inline(always)]
    const fn fixed(&self, state: u64, now: u64) -> (u64, u64) {
        let (number, _) = self.place(now);
        let ahead = ahead(state, number, FIXED_NUMBER_BITS);
        match (kind(state), ahead) {
            (FIXED, 0 | 1) => (state >> FIXED_COUNT_SHIFT, low(number + ahead, FIXED_NUMBER_BITS)),
            _ => (0, low(number, FIXED_NUMBER_BITS)),
        }
    }

    /// Asks a sliding window for `cost`. Returns the state to store if it is admitted.
    #[inline(always)]
    #[must_use]
    pub const fn ask_sliding(&self, state: u64, now: u64, cost: u64) -> Option<u64> {
        let Counts { previous, current, elapsed, number } = self.sliding(state, now);
        let sum = current + cost;
        let is_empty = previous | current == 0;
        // Times the window's length, so that nothing is divided.
        let fits = sum <= self.limit
            && previous * self.length.wrapping_sub(elapsed) <= (self.limit - sum).wrapping_mul(self.length);
        if !is_empty && !fits {
            return None;
        }
        let number = low(number, SLIDING_NUMBER_BITS);
        Some(sum << CURRENT_SHIFT | previous << PREVIOUS_SHIFT | number << KIND_BITS | SLIDING)
    }

    /// Returns the counts of a sliding window. A larger limit before may have left a count above this limit. Such a
    /// count is treated as equal to the limit.
    #[inline(always)]
    const fn sliding(&self, state: u64, now: u64) -> Counts {
        let (number, elapsed) = self.place(now);
        let empty = Counts { previous: 0, current: 0, elapsed, number };
        if kind(state) != SLIDING {
            return empty;
        }
        let current = least(state >> CURRENT_SHIFT, self.limit);
        let previous = least(low(state >> PREVIOUS_SHIFT, COUNT_BITS), self.limit);
        // By masks that are all ones or nothing: with a branch for each case, Linux 6.1 let every packet pass in some
        // programs, later kernels in none.
        let ahead = ahead(state, number, SLIDING_NUMBER_BITS);
        const BEFORE: u64 = (1 << SLIDING_NUMBER_BITS) - 1;
        let (is_running, is_next, is_before) = (mask(ahead == 0), mask(ahead == 1), mask(ahead == BEFORE));
        Counts {
            previous: previous & (is_running | is_next) | current & is_before,
            current: current & (is_running | is_next),
            elapsed: elapsed & !is_next,
            number: number + (is_next & 1),
        }
    }

    /// Returns the state without a charge, if the charge's window is still running.
    #[inline(always)]
    #[must_use]
    pub const fn refund(&self, state: u64, now: u64, cost: u64) -> Option<u64> {
        let (number, _) = self.place(now);
        let (bits, shift) = match kind(state) {
            FIXED => (FIXED_NUMBER_BITS, FIXED_COUNT_SHIFT),
            _ => (SLIDING_NUMBER_BITS, CURRENT_SHIFT),
        };
        // It is not known whether a window that was ahead was charged. Then a packet is lost, and none is minted.
        let is_running = state & 1 != 0 && ahead(state, number, bits) == 0;
        if is_running && state >> shift >= cost { Some(state - (cost << shift)) } else { None }
    }

    /// Returns what the window of this state counts, rounded up.
    #[must_use]
    pub const fn counted(&self, state: u64, now: u64) -> u64 {
        if kind(state) == FIXED {
            return self.fixed(state, now).0;
        }
        let Counts { previous, current, elapsed, .. } = self.sliding(state, now);
        let weight = previous as u128 * self.length.saturating_sub(elapsed) as u128;
        current + weight.div_ceil(if self.length == 0 { 1 } else { self.length as u128 }) as u64
    }

    /// Returns the nanoseconds until it counts nothing of this state any more.
    #[must_use]
    pub const fn forgets(&self, state: u64, now: u64) -> u64 {
        if kind(state) == FIXED {
            return if self.fixed(state, now).0 == 0 { 0 } else { self.wait_fixed(now) };
        }
        let Counts { previous, current, elapsed, .. } = self.sliding(state, now);
        let left = self.length.saturating_sub(elapsed);
        match (current, previous) {
            (0, 0) => 0,
            (0, _) => left,
            _ => left + self.length,
        }
    }

    /// Returns the nanoseconds until a fixed window ends.
    #[inline(always)]
    #[must_use]
    pub const fn wait_fixed(&self, now: u64) -> u64 {
        self.length.wrapping_sub(self.place(now).1)
    }

    /// Returns the nanoseconds for which a sliding window still refuses `cost`, if nothing else is admitted meanwhile.
    #[must_use]
    pub const fn wait_sliding(&self, state: u64, now: u64, cost: u64) -> u64 {
        let Counts { previous, current, elapsed, .. } = self.sliding(state, now);
        let left = self.length.saturating_sub(elapsed);
        let Some(room) = self.limit.checked_sub(cost) else {
            // Only an empty window admits it.
            return if current == 0 { left } else { left + self.length };
        };
        match room.checked_sub(current) {
            // Within this window, when the one before weighs little enough.
            Some(room) => left.saturating_sub(self.weighs(previous, room)),
            // The running one has to become the one before.
            None => left + (self.length - self.weighs(current, room)),
        }
    }

    /// Returns the nanoseconds of a window that may still be covered, so that `count` weighs at most `room`.
    #[inline(always)]
    const fn weighs(&self, count: u64, room: u64) -> u64 {
        match room.wrapping_mul(self.length).checked_div(count) {
            Some(covered) => least(covered, self.length),
            None => self.length,
        }
    }
}

/// Returns the number of windows by which a state is ahead of the one with this number.
#[inline(always)]
const fn ahead(state: u64, number: u64, bits: u32) -> u64 {
    low((state >> KIND_BITS).wrapping_sub(number), bits)
}

#[inline(always)]
const fn low(value: u64, bits: u32) -> u64 {
    value & ((1 << bits) - 1)
}

#[inline(always)]
const fn mask(is_on: bool) -> u64 {
    (is_on as u64).wrapping_neg()
}

#[inline(always)]
const fn least(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

#[cfg(test)]
mod tests;
