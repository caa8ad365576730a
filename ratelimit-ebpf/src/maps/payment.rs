//! Cost of a packet in one limit, and what each stage of the limit was charged.

use ratelimit_common::{maps::cpu, meters::meter::Meter};

use crate::bpf::{atomic::Word, clock::Clock};

/// [`cpu::Payment`]. It lies on the stack, or with the CPU if a later limit may refuse the packet.
#[repr(C)]
pub struct Payment {
    /// Time of the packet in nanoseconds.
    pub now: Word,
    /// See [`ratelimit_common::maps::control::Control::largest_debt`].
    pub largest_debt: Word,
    /// Cost of the packet.
    pub cost: Word,
    /// Charge of the level.
    pub level: Word,
    /// Charge of the bucket.
    pub own: Word,
}
const _: () = assert!(size_of::<Payment>() == size_of::<cpu::Payment>());

impl Payment {
    /// Creates the payment for a packet of this amount, of which nothing is charged yet.
    #[inline(always)]
    #[must_use]
    pub fn new(meter: &Meter, amount: u32, clock: &Clock<'_>) -> Self {
        Self {
            now: Word::new(clock.now()),
            largest_debt: Word::new(clock.largest_debt()),
            cost: Word::new(meter.cost_of(amount)),
            level: Word::new(0),
            own: Word::new(0),
        }
    }

    /// Makes this the payment for a packet of this amount, of which nothing is charged yet.
    #[inline(always)]
    pub fn begin(&self, meter: &Meter, amount: u32, clock: &Clock<'_>) {
        self.now.store(clock.now());
        self.largest_debt.store(clock.largest_debt());
        self.cost.store(meter.cost_of(amount));
        self.charge(0, 0);
    }

    /// Records what the level and the bucket were charged.
    #[inline(always)]
    pub fn charge(&self, level: u64, own: u64) {
        self.level.store(level);
        self.own.store(own);
    }
}
