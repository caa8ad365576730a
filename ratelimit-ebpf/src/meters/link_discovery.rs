//! The cap on ARP and neighbour discovery, which no source pays for.

use ratelimit_common::{
    limits::policy::Meter,
    meters::gcra::{self, Units},
    reason::Reason,
};

use crate::{
    bpf::clock::Clock,
    maps::all::{CONTROL, LINK_DISCOVERY},
    meters::charge::{Charge, charge},
};

/// 10,000 packets a second, all interfaces together, and as many at once: several times what a link of a thousand hosts asks for.
const CAP: Meter = {
    let cost: Units = gcra::units(1_000_000_000 / 10_000);
    Meter { cost, capacity: 10_000 * cost, ceiling: 10_000 * cost, front: 0, shift: 0, reserved: 0 }
};

/// Whether one more passes.
#[inline(always)]
#[must_use]
pub fn judge() -> Reason {
    let (Some(control), Some(state)) = (CONTROL.get(0), LINK_DISCOVERY.get(0)) else { return Reason::NoState };
    match charge(state, &CAP, &Clock::read(control), CAP.cost) {
        Charge::Paid => Reason::LinkDiscovery,
        Charge::Refused => Reason::LinkDiscoveryOverCap,
        Charge::Contended => Reason::Contended,
    }
}
