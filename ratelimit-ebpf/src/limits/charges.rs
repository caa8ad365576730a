//! Cost of a packet in one limit, and what each stage of the limit was charged.

use ratelimit_common::{
    limits::policy::{COARSE, Policy},
    meters::{gcra::Units, meter::Meter},
};

use crate::bpf::clock::Clock;

/// Cost of a packet, and the charges of each stage.
#[repr(C)]
pub struct Payment {
    /// Time of the packet in nanoseconds.
    pub now: u64,
    /// Whether that is a time of the coarse clock.
    pub is_coarse: bool,
    /// Cost of the packet.
    pub cost: Units,
    /// Charge of the cell's level.
    pub level: Units,
    /// Charge of the own bucket.
    pub own: Units,
    /// The charged level, and the charged state of the own bucket.
    pub charged: [u64; 2],
}

impl Payment {
    /// Creates the payment for a packet of this amount, of which nothing is charged yet.
    #[inline(always)]
    #[must_use]
    pub fn new(meter: &Meter, amount: u32, policy: &Policy, clock: &Clock<'_>) -> Self {
        let (now, is_coarse) = (clock.now(), policy.flags & COARSE != 0);
        Self { now, is_coarse, cost: meter.cost_of(amount), level: 0, own: 0, charged: [0; 2] }
    }
}
