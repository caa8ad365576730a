//! One limit in units of time, so that the kernel side only adds and compares.

use crate::{
    boundary,
    meters::{
        gcra::{self, Answer, Units},
        state,
    },
};

/// Bytes of the largest frame that can arrive: 64 KiB, which receive offload can join.
pub const MAX_FRAME: u32 = 1 << 16;

/// One limit in units of time.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Meter {
    /// Cost of one packet or one byte, times two to the power of `shift`, halved.
    pub cost: u64,
    /// Debt that the burst allows; 0 means no limit.
    pub burst: Units,
    /// Largest debt that one packet can leave behind.
    pub ceiling: Units,
    /// The cell's share of the burst. It is half of the burst, or less where the rest would not hold the largest
    /// packet, down to 0. See [`crate::meters::stages`].
    pub cell_share: Units,
    /// Binary digits of the cost's fraction. Below 64.
    pub shift: u32,
    /// Zero.
    pub reserved: u32,
}
boundary!(Meter, size 40);

impl Meter {
    /// Returns whether this limit exists.
    #[inline(always)]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.burst != 0
    }

    /// Returns this meter with a burst that is smaller by `by`, if it is on.
    pub(crate) fn shortened(self, by: Units) -> Self {
        if !self.is_on() {
            return self;
        }
        let burst = self.burst - by;
        let ceiling = if self.ceiling == self.burst { burst } else { self.ceiling };
        Self { burst, ceiling, cell_share: self.cell_share.saturating_sub(by).min(half(burst)), ..self }
    }

    /// Returns this meter with a cell's share that leaves room for a packet which counts as `most` packets.
    pub(crate) fn for_cost(self, most: u32) -> Self {
        if !self.is_on() {
            return self;
        }
        let (largest, burst) = (self.cost_of(most), self.burst);
        let cell_share = self.cell_share.min(burst.saturating_sub(largest));
        Self { ceiling: self.ceiling.max(largest), cell_share, ..self }
    }

    /// Returns the cost of `amount` packets or bytes, rounded to the nearest even unit (see [`crate::meters::state`]).
    /// More than [`MAX_FRAME`] counts as that.
    #[inline(always)]
    #[must_use]
    pub const fn cost_of(&self, amount: u32) -> Units {
        let shift = self.shift & 63;
        let half = (1 << shift) >> 1;
        let amount = if amount < MAX_FRAME { amount } else { MAX_FRAME };
        ((amount as u64).wrapping_mul(self.cost).wrapping_add(half)) >> shift << 1
    }

    /// Returns the part of the burst that belongs to the source's own bucket behind a cell.
    #[inline(always)]
    #[must_use]
    pub const fn rest(&self) -> Units {
        self.burst.wrapping_sub(self.cell_share)
    }

    /// Returns the largest debt that a source's own bucket behind a cell can have: more than [`Self::rest`] if one packet
    /// can cost more than the burst.
    #[inline(always)]
    #[must_use]
    pub const fn most_of_rest(&self) -> Units {
        if self.ceiling > self.burst { self.ceiling } else { self.rest() }
    }

    /// Returns whether so many packets or bytes fill [`Self::rest`].
    #[inline(always)]
    #[must_use]
    pub const fn is_rest_filled_by(&self, amount: u64) -> bool {
        match self.rest().checked_div(self.cost_of(1)) {
            Some(most) => amount >= most,
            None => amount >= self.rest(),
        }
    }

    /// Asks a bucket in this state for `cost` at `now`. See [`gcra::ask`].
    #[inline(always)]
    #[must_use]
    pub const fn ask(&self, state: u64, now: Units, cost: Units) -> Answer {
        gcra::ask_owing(state::debt(state, now), now, cost, self.burst, self.ceiling)
    }
}

/// Returns half of a time, even.
pub(crate) const fn half(time: Units) -> Units {
    time / 4 * 2
}
