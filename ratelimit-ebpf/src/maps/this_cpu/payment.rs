//! Cost of a packet in one limit, and what each stage of the limit was charged.

use ratelimit_common::{
    maps::cpu,
    meters::{gcra::Units, meter::Meter},
};

use crate::bpf::{atomic::Word, clock::Clock};

/// [`cpu::Payment`]. It is kept with the CPU, because the stack has no room for it.
#[repr(C)]
#[expect(missing_docs, reason = "they are those of `cpu::Payment`")]
pub struct Payment {
    pub now: Word,
    pub is_coarse: Word,
    pub largest_debt: Word,
    pub cost: Word,
    pub level: Word,
    pub charged_level: Word,
    pub own: Word,
    pub charged_own: Word,
}
const _: () = assert!(size_of::<Payment>() == size_of::<cpu::Payment>());

impl Payment {
    /// Makes this the payment for a packet of this amount, of which nothing is charged yet.
    #[inline(always)]
    pub fn begin(&self, meter: &Meter, amount: u32, clock: &Clock<'_>, is_coarse: bool) {
        self.now.store(clock.now());
        self.is_coarse.store(u64::from(is_coarse));
        self.largest_debt.store(clock.largest_debt());
        self.cost.store(meter.cost_of(amount));
        self.clear();
    }

    /// Records that nothing is charged.
    #[inline(always)]
    pub fn clear(&self) {
        self.record_level(0, 0);
        self.record_own(0, 0);
    }

    /// Records the charge of the level, and the charged level.
    #[inline(always)]
    pub fn record_level(&self, cost: Units, charged: u64) {
        self.level.store(cost);
        self.charged_level.store(charged);
    }

    /// Records the charge of the bucket, and its charged state.
    #[inline(always)]
    pub fn record_own(&self, cost: Units, charged: u64) {
        self.own.store(cost);
        self.charged_own.store(charged);
    }
}
