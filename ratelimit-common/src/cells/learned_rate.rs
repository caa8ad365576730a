//! The rate of all unknown sources as the program learns it (`--unknown auto`): four times the most packets of a calm
//! minute. A minute is calm if at most one packet was refused for 16 that passed. So a burst of new visitors does not keep
//! the program from learning.
//!
//! A day has 1,440 calm minutes with packets of unknown sources. So neither a flood nor a pause makes the program forget
//! what it has learned, and the clock of the host does not matter. A day with more than [`MOST_RESTLESS`] other minutes
//! begins again, and keeps what it has taught. Otherwise a flood in the busy hours would end the days by their nights alone.
//! A day begins again at most [`MOST_REPEATS`] times, so that nothing is remembered for ever.
//!
//! A flood that stays below the rate looks calm. So the rate rises slowly: it at most doubles in 24 hours.
//!
//! After a reboot, a pause or a day without a calm minute, clients of long standing are unknown like everybody. For some
//! minutes, the rate is at least [`FIRST`], so that they become known again. These minutes teach nothing.

use crate::{
    boundary,
    limits::limit::SECOND,
    meters::gcra::{self, Units},
};

/// What the program has learned, and what it counts.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LearnedRate {
    /// Packets per minute that unknown sources may send. 0 stands for [`FIRST`].
    pub per_minute: u64,
    /// Nanoseconds of the monotonic clock when the minute began.
    pub begun: u64,
    /// Packets that passed in the minute.
    pub passed: u64,
    /// Packets that were refused in the minute, as far as they matter.
    pub refused: u64,
    /// Calm minutes so far.
    pub calm: u64,
    /// Minutes that are left in which the rate is at least [`FIRST`], so that sources become known again.
    pub settling: u64,
    /// Minutes in a row that were not calm.
    pub restless: u64,
    /// Minutes of this day that were not calm.
    pub restless_of_day: u64,
    /// How often this day has begun again.
    pub repeats: u64,
    /// The most packets of a calm minute: of this day, and of the days before it.
    pub most: [u64; DAYS],
}
boundary!(LearnedRate, size 136);

/// Nanoseconds after which the next packet ends a minute.
pub const MINUTE: u64 = 60 * SECOND;
/// Calm minutes of a day.
pub const DAY: u64 = 1_440;
/// Days that are remembered: this one, and a week before it.
pub const DAYS: usize = 8;
/// The rate is so many times the most packets of a calm minute.
pub const FACTOR: u64 = 4;
/// The least packets per minute.
pub const LEAST: u64 = 60 * 1_000;
/// Packets per minute during the first day. So a flood on this day does not teach more.
pub const FIRST: u64 = 60 * 100_000;
/// The most packets per minute, as of every rate.
pub const MOST: u64 = 60 * 100_000_000;
/// Passed packets for which one may be refused in a calm minute.
pub const TOLERANCE: u64 = 16;
/// Nanoseconds after which a source without packets is not known any more.
pub const PAUSE: u64 = 10 * MINUTE;
/// Minutes in which sources become known again. A client that is not active in them would have been forgotten anyway.
pub const SETTLING: u64 = 10;
/// Minutes in a row that are not calm, after which sources get a chance to become known again.
pub const RESTLESS: u64 = DAY;
/// Minutes of a day that need not be calm.
pub const MOST_RESTLESS: u64 = 15;
/// How often a day begins again.
pub const MOST_REPEATS: u64 = 8;
/// Part of the rate by which it rises in a minute. So often, it almost doubles in 1,441 minutes.
pub const RISE: u64 = 2_080;

/// Nanoseconds' worth of packets that unknown sources may send at once, also at a rate that is not learned. Any of them
/// may take the first half.
pub const BURST_TIME: u64 = SECOND / 5;
/// Nanoseconds' worth of packets that a CPU takes at a time, also at a rate that is not learned.
pub const BATCH_TIME: u64 = SECOND / 1_000;
/// Debt that the burst allows.
pub const BURST: Units = gcra::units(BURST_TIME);
/// More than a batch costs: two milliseconds.
pub const MOST_COST: Units = gcra::units(SECOND / 500);
/// Batches in a minute.
const BATCHES: u64 = MINUTE / BATCH_TIME;

/// Returns the packets per minute in force.
#[inline(always)]
#[must_use]
pub const fn in_force(per_minute: u64, settling: u64) -> u64 {
    if per_minute == 0 || settling != 0 && per_minute < FIRST { FIRST } else { per_minute }
}

/// Returns the packets of a batch.
#[inline(always)]
#[must_use]
pub const fn batch(per_minute: u64) -> u64 {
    let batch = per_minute / BATCHES;
    if batch == 0 { 1 } else { batch }
}

/// Returns the cost of a batch.
#[inline(always)]
#[must_use]
pub const fn cost(per_minute: u64, batch: u64) -> Units {
    gcra::units(MINUTE * batch) / per_minute
}

/// Returns how many packets may be refused in a calm minute in which so many passed.
#[inline(always)]
#[must_use]
pub const fn tolerated(passed: u64) -> u64 {
    passed / TOLERANCE
}

/// Returns how many refused packets of a minute are counted: more than a calm minute can have. Beside what the rate lets
/// through, a burst that was saved before can pass, and what each CPU has taken.
#[inline(always)]
#[must_use]
pub const fn most_refused(per_minute: u64) -> u64 {
    tolerated(2 * per_minute) + 1
}

/// Returns whether a minute that began at `begun` has ended. At 0, none has begun yet. CPUs do not read the clock in the
/// order in which they begin minutes, so it can be in the future.
#[inline(always)]
#[must_use]
pub const fn has_ended(begun: u64, now: u64) -> bool {
    let elapsed = now.wrapping_sub(begun);
    begun == 0 || elapsed >= MINUTE && elapsed <= u64::MAX / 2
}

/// Returns whether no source can be known any more when a minute that began at `begun` ends.
#[inline(always)]
#[must_use]
pub const fn is_pause(begun: u64, now: u64) -> bool {
    begun == 0 || now.wrapping_sub(begun) >= PAUSE
}

/// Returns the minutes that are left to become known again, and the minutes in a row that were not calm, after one more.
#[inline(always)]
#[must_use]
pub const fn settle(settling: u64, restless: u64, is_calm: bool, is_pause: bool) -> (u64, u64) {
    let restless = if is_calm { 0 } else { restless + 1 };
    if is_pause || restless >= RESTLESS { (SETTLING, 0) } else { (settling.saturating_sub(1), restless) }
}

/// Returns the calm minutes, the minutes of this day that were not calm, and how often it has begun again, after one more
/// minute. A day begins with its first calm minute.
#[inline(always)]
#[must_use]
pub const fn count_minute(calm: u64, restless_of_day: u64, repeats: u64, is_calm: bool) -> (u64, u64, u64) {
    let after = calm + is_calm as u64;
    if !is_calm {
        (after, restless_of_day + !calm.is_multiple_of(DAY) as u64, repeats)
    } else if !after.is_multiple_of(DAY) {
        (after, restless_of_day, repeats)
    } else if restless_of_day <= MOST_RESTLESS || repeats >= MOST_REPEATS {
        (after, 0, 0)
    } else {
        // The day goes on with its second minute: the first one of a day replaces what its place had a week before.
        (after + 1 - DAY, 0, repeats + 1)
    }
}

/// Returns the packets of a minute that count.
#[inline(always)]
#[must_use]
pub const fn counted(calm: u64, settling: u64, passed: u64) -> u64 {
    if calm < DAY {
        return if passed > FIRST / FACTOR { FIRST / FACTOR } else { passed };
    }
    if settling == 0 { passed } else { 0 }
}

/// Returns the place of the day after so many calm minutes.
#[inline(always)]
#[must_use]
pub const fn place(calm: u64) -> u64 {
    calm / DAY % DAYS as u64
}

/// Returns the most packets of a day after one more calm minute in which so many counted. `most` is what its place had
/// before.
#[inline(always)]
#[must_use]
pub const fn most_of_day(most: u64, calm: u64, counted: u64) -> u64 {
    let most = if calm.is_multiple_of(DAY) { 0 } else { most };
    if counted > most { counted } else { most }
}

/// Returns the packets per minute to which the rate rises or falls, with this most of all days. Operators see rates per
/// second, so the most counts in full packets per second.
#[inline(always)]
#[must_use]
pub const fn target(most: u64) -> u64 {
    // The product of larger ones would need more than 64 bits.
    let most = if most < MOST { most } else { MOST };
    match most.div_ceil(60) * (60 * FACTOR) {
        rate if rate < LEAST => LEAST,
        rate if rate > MOST => MOST,
        rate => rate,
    }
}

/// Returns the packets per minute after a minute, with this most of all days.
#[inline(always)]
#[must_use]
pub const fn next(per_minute: u64, calm: u64, most: u64) -> u64 {
    if calm < DAY {
        return FIRST;
    }
    let (target, risen) = (target(most), per_minute + per_minute / RISE);
    if risen < target { risen } else { target }
}

impl LearnedRate {
    /// Returns the packets per minute in force.
    #[must_use]
    pub const fn in_force(&self) -> u64 {
        in_force(self.per_minute, self.settling)
    }

    /// Returns whether the rate is higher than the learned one, so that sources become known again.
    #[must_use]
    pub const fn is_raised(&self) -> bool {
        !self.is_learning() && self.in_force() != in_force(self.per_minute, 0)
    }

    /// Returns whether the first day lasts.
    #[must_use]
    pub const fn is_learning(&self) -> bool {
        self.calm < DAY
    }

    /// Returns the most packets of a calm minute that are remembered.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most.into_iter().max().unwrap_or(0)
    }

    /// Returns the number of days that are remembered. The one that has begun counts.
    #[must_use]
    pub const fn days(&self) -> u64 {
        let days = self.calm.div_ceil(DAY);
        if days < DAYS as u64 { days } else { DAYS as u64 }
    }

    /// Returns what outlasts the program and the clock. None if the program cannot have learned it.
    #[must_use]
    pub fn lasting(self) -> Option<Self> {
        let is_possible = |per_minute: u64| (LEAST..=MOST).contains(&per_minute);
        let is_sane = is_possible(in_force(self.per_minute, 0)) && self.most() <= MOST && self.calm <= u64::MAX / 2;
        let is_day = self.restless_of_day <= u64::MAX / 2 && self.repeats <= MOST_REPEATS;
        let lasting = Self { begun: 0, passed: 0, refused: 0, settling: 0, restless: 0, ..self };
        (is_sane && is_day).then_some(lasting)
    }
}

#[cfg(test)]
mod tests;
