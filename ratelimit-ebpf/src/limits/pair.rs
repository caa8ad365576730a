//! One limit of a source as its cell and its own bucket share it.

use ratelimit_common::{
    limits::policy::Meter,
    meters::{gcra::Units, state},
};

use crate::{
    bpf::{atomic::Word, clock::Clock},
    cells::level,
    limits::{
        payment::{Payment, pair_refuses, pay_own, pay_pair},
        sums::wait_of_stages,
    },
    meters::charge::{self, Charge},
};

/// One limit's two stages.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    level: &'a Word,
    own: &'a Word,
    meter: &'a Meter,
}

impl<'a> Pair<'a> {
    /// A limit with its level and its state.
    #[inline(always)]
    #[must_use]
    pub fn new(level: &'a Word, own: &'a Word, meter: &'a Meter) -> Self {
        Self { level, own, meter }
    }

    /// How long a packet of this amount is refused still; 0 if it is not. See [`ratelimit_common::meters::stages::wait`].
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

    /// Whether the own bucket refuses. Nothing is charged.
    #[inline(always)]
    #[must_use]
    pub fn refuses(&self, payment: &Payment) -> bool {
        pair_refuses(self.level, self.own, self.meter, payment.now, payment.cost)
    }

    /// Charges the cell first, so that its room is nobody else's, and then the own bucket for the rest.
    #[inline(always)]
    #[must_use]
    pub fn pay(&self, payment: &mut Payment) -> Charge {
        pay_pair(self.level, self.own, self.meter, payment)
    }

    /// The same in fewer steps where the cell has no room and the own bucket pays all, as for whoever stays at its limit. Refuses too where that
    /// is not so.
    #[inline(always)]
    #[must_use]
    pub fn pay_rest(&self, payment: &Payment) -> Charge {
        pay_own(self.level, self.own, self.meter, payment.now, payment.cost)
    }

    /// Gives back what was paid.
    #[inline(always)]
    pub fn refund(&self, payment: &Payment, clock: &Clock<'_>) {
        charge::refund_level(self.level, clock.units(), payment.level);
        charge::refund(self.own, clock.units(), payment.own);
    }
}
