//! The cap of each interface on ARP and neighbour discovery, which no source pays for.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::{
    maps::{control::Control, interface_counters::OTHERS},
    meters::gcra::{self, MAX_DEBT, Units},
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings},
    maps::{
        control, counters,
        exchange::{self, Addition, TRIES},
        shared,
    },
    meters::budget,
};

/// Cost of one packet: 10,000 per second, several times the need of a link with a thousand hosts.
const COST: Units = gcra::units(1_000_000_000 / 10_000);
/// Debt that the burst allows: the packets of one second.
const BURST: Units = 10_000 * COST;

/// Decides about one packet of link discovery.
#[inline(always)]
#[must_use]
pub fn decide(ctx: &XdpContext) -> Reason {
    // A single interface needs no place of its own.
    let several = settings::is_on(&settings::INTERFACES_ON);
    let place = if several { place_of_link(ctx.ingress_ifindex() as u32) } else { OTHERS };
    let (Some(control), Some(state)) = (control::get(), shared::link_discovery(place)) else { return Reason::NoState };
    if is_within(state, control) { Reason::LinkDiscovery } else { Reason::LinkDiscoveryOverCap }
}

/// Global, so that the verifier continues behind it in one state.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn place_of_link(interface: u32) -> u32 {
    if settings::is_on(&settings::INTERFACES_ON) { counters::place_of(interface) } else { OTHERS }
}

/// Not inlined, so that the verifier continues behind it in one state.
#[inline(never)]
fn is_within(state: &Word, control: &Control) -> bool {
    let (now, mut found) = (Clock::read(control).units(), 0);
    let charged = exchange::charge::<TRIES>(state, Addition::within(MAX_DEBT - BURST, COST), |seen| {
        found = seen;
        budget::next(seen, now, COST, BURST)
    });
    if charged.is_none() {
        budget::cut(state, found, now, BURST, || Clock::read(control).units());
    }
    charged.is_some()
}
