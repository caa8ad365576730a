//! The debt with which a new bucket begins, if the hosts of a fleet divide the burst.

use ratelimit_common::{
    fleet::lease::{self, EVERY_SOURCE},
    limits::{
        limit::BURST_FRAME,
        policy::{Policy, SECOND_OF_PACKETS, STARTS_SMALL},
    },
    meters::{gcra::Units, meter::Meter, start, state},
};

use crate::{bpf::settings, maps::leases};

/// Returns the states of both limits in a new bucket whose source owes nothing else.
#[inline(always)]
#[must_use]
pub fn states(policy: Option<&Policy>, now: Units, tick: u64) -> [u64; 2] {
    policy.map_or([now; 2], |policy| begun([now; 2], policy, now, tick))
}

/// Returns the states of both limits in a new bucket, which owe at least what these do.
#[inline(always)]
#[must_use]
pub fn begun(states: [u64; 2], policy: &Policy, now: Units, tick: u64) -> [u64; 2] {
    if !settings::has_leases() || policy.flags & STARTS_SMALL == 0 {
        return states;
    }
    let ([first, also], Policy { packets, second, .. }, hosts) = (states, policy, number_of_hosts(tick));
    let frame = if policy.flags & SECOND_OF_PACKETS == 0 { BURST_FRAME } else { 1 };
    [begin(first, packets, 1, hosts, now), begin(also, second, frame, hosts, now)]
}

/// Returns the state that owes more: the given one, or the one after the part of the burst that other hosts have.
#[inline(always)]
fn begin(owing: u64, meter: &Meter, least: u32, hosts: u64, now: Units) -> u64 {
    let cell_share = if settings::has_cells() { meter.cell_share } else { 0 };
    let debt = start::debt(meter, cell_share, meter.cost_of(least), hosts);
    if state::debt(owing, now) > debt { owing } else { now.wrapping_add(debt) }
}

/// Returns the number of hosts that divide a burst.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn number_of_hosts(tick: u64) -> u64 {
    match settings::has_leases() {
        true => leases::find(EVERY_SOURCE, tick).map_or(1, |lease| lease::hosts(lease.multiplier.load())),
        false => 1,
    }
}
