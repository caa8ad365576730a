//! One limit of a source in two stages: its cell and its own bucket.

use ratelimit_common::meters::{gcra::Units, meter::Meter, state};

use crate::{
    bpf::{atomic::Word, clock::Clock},
    cells::level,
    limits::stages::{
        charged::undo_payment,
        payment::{pay_own, pay_pair, rest_refuses},
        two_stages::wait_of_stages,
    },
    maps::{exchange::Charge, this_cpu::payment::Payment},
};

/// The two stages of one limit.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    level: &'a Word,
    own: &'a Word,
    meter: &'a Meter,
}

impl<'a> Pair<'a> {
    /// Creates the pair of a limit's level and state.
    #[inline(always)]
    #[must_use]
    pub fn new(level: &'a Word, own: &'a Word, meter: &'a Meter) -> Self {
        Self { level, own, meter }
    }

    /// Returns the time for which a packet of this amount is still refused; 0 if it is not. See
    /// [`ratelimit_common::meters::stages::wait`].
    #[inline(always)]
    #[must_use]
    pub fn wait(&self, amount: u32, clock: &Clock<'_>) -> Units {
        let Self { level, own, meter } = *self;
        if !meter.is_on() {
            return 0;
        }
        let (level, own) = (level::debt(level, clock), state::debt(own.load(), clock.units()));
        wait_of_stages(level, own, meter.cost_of(amount), meter)
    }

    /// Returns whether the own bucket refuses. Nothing is charged.
    #[inline(always)]
    #[must_use]
    pub fn refuses(&self, payment: &Payment, clock: &Clock<'_>) -> bool {
        rest_refuses(self.own, self.meter, clock.control(), level::debt(self.level, clock), payment)
    }

    /// Charges the cell first, so that no other packet gets its room, and then the own bucket for the rest.
    #[inline(always)]
    #[must_use]
    pub fn pay(&self, payment: &Payment) -> Charge {
        pay_pair(self.level, self.own, self.meter, payment)
    }

    /// Charges both in fewer steps, where the cell has no room and the own bucket pays everything, as for a source that
    /// stays at its limit. Refuses where this does not hold.
    #[inline(always)]
    #[must_use]
    pub fn pay_rest(&self, payment: &Payment) -> Charge {
        pay_own(self.level, self.own, self.meter, payment)
    }

    /// Gives the charges back.
    #[inline(always)]
    pub fn refund(&self, payment: &Payment) {
        undo_payment(Some(self.level), Some(self.own), payment);
    }
}
