//! Lets a new bucket begin with a part of its burst, if the hosts of a fleet divide it.

use ratelimit_common::{
    buckets::bucket::Resolution,
    fleet::lease::{self, EVERY_SOURCE},
    identity::source::Source,
    limits::{
        limit::BURST_FRAME,
        policy::{SECOND_OF_PACKETS, STARTS_SMALL},
    },
    meters::{
        gcra::{self, Units},
        meter::Meter,
        start, state,
    },
};

use crate::{
    bpf::{
        atomic::Word,
        settings,
        verifier::{given, key},
    },
    maps::{buckets, leases, rules},
};

/// Inserts a bucket in these states, or in states that owe more. See [`buckets::insert`].
#[inline(always)]
pub fn insert(source: &Source, packets: u64, second: u64, resolution: Resolution, now: u64) {
    buckets::insert(source, packets, second, resolution, now);
    if settings::has_leases() {
        spend(source, resolution.0, now);
    }
}

/// Spends what other hosts have of the burst. It comes after the bucket, because of the stack.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn spend(source: *const Source, resolution: u64, now: u64) -> u32 {
    if !settings::has_leases() {
        return 0;
    }
    let (Some(source), Some(policy)) = (given(source), rules::policy(Resolution(resolution).policy())) else {
        return 0;
    };
    if policy.flags & STARTS_SMALL == 0 {
        return 0;
    }
    let Some(lease) = leases::find(EVERY_SOURCE, now) else { return 0 };
    let Some(bucket) = buckets::inserted(&key(source)) else { return 0 };
    let (hosts, now) = (lease::hosts(lease.multiplier.load()), gcra::units(now));
    let frame = if policy.flags & SECOND_OF_PACKETS == 0 { BURST_FRAME } else { 1 };
    owe(&bucket.packets, &policy.packets, 1, hosts, now);
    owe(&bucket.second, &policy.second, frame, hosts, now);
    0
}

/// Raises a state to that of a bucket which has spent the other hosts' part. If another CPU is first, it was admitted
/// something, and the state stays.
#[inline(always)]
fn owe(word: &Word, meter: &Meter, least: u32, hosts: u64, now: Units) {
    let cell_share = if settings::has_cells() { meter.cell_share } else { 0 };
    let (debt, seen) = (start::debt(meter, cell_share, meter.cost_of(least), hosts), word.load());
    if meter.is_on() && state::debt(seen, now) < debt {
        let _ = word.compare_exchange(seen, now.wrapping_add(debt));
    }
}
