//! The cap on ARP and neighbour discovery, which no source pays for.

use ratelimit_common::{
    meters::{
        gcra::{self, Units},
        meter::Meter,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock},
    maps::{budgets, control},
    meters::gcra::charge_here,
};

/// 10,000 packets per second on all interfaces together: several times the need of a link with a thousand hosts.
const CAP: Meter = {
    let cost: Units = gcra::units(1_000_000_000 / 10_000);
    Meter { cost, burst: 10_000 * cost, ceiling: 10_000 * cost, cell_share: 0, shift: 0, reserved: 0 }
};

/// Decides about one packet of link discovery.
#[inline(always)]
#[must_use]
pub fn decide() -> Reason {
    let (Some(control), Some(state)) = (control::get(), budgets::link_discovery()) else { return Reason::NoState };
    if is_within(state, &Clock::read(control)) { Reason::LinkDiscovery } else { Reason::LinkDiscoveryOverCap }
}

/// Not inlined, so that the verifier continues behind it in one state.
#[inline(never)]
fn is_within(state: &Word, clock: &Clock<'_>) -> bool {
    charge_here(state, &CAP, clock, CAP.cost).is_some()
}
