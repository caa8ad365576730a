//! When packets of some service cost more than any did, cells dispose of smaller front parts. What a source owes between the new part and the one before
//! is in its cell only, and its own bucket would give it once more: so it is charged before it is asked again.

use ratelimit_common::{
    buckets::bucket::Resolution,
    limits::policy::{COARSE, Meter},
    maps::control::Control,
    meters::{stages, state},
};

use crate::{
    bpf::{atomic::Word, clock::Clock, verifier::given},
    cells::{cell, level},
    maps::all::{CONTROL, POLICIES},
    meters::token_bucket::Tracked,
    rules::cost,
};

/// Charges a bucket what its cell shows above the front parts, if those have shrunk since its policy was resolved, and remembers what is resolved by now:
/// so this happens once. `hash` is that of its source. While they shrink, no generation is new enough, and it happens each time.
#[inline(always)]
pub fn follow(bucket: &Tracked, hash: u64, resolution: Resolution, control: &Control, tick: u64) {
    if cost::are_on() && cell::is_on() && bucket.resolved().is_before(since(control)) {
        follow_fronts(bucket, hash, resolution.0, tick);
    }
}

/// See [`Control::fronts_since`].
#[inline(always)]
fn since(control: &Control) -> u32 {
    // SAFETY: a reference is readable; volatile because the user side writes it.
    unsafe { core::ptr::read_volatile(&raw const control.fronts_since) }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn follow_fronts(bucket: *const Tracked, hash: u64, resolution: u64, tick: u64) -> u32 {
    if !cost::are_on() || !cell::is_on() {
        return 0;
    }
    let (Some(bucket), Some(control)) = (given(bucket), CONTROL.get(0)) else { return 0 };
    let (cached, resolution) = (bucket.resolved(), Resolution(resolution));
    // Where another class is billed, there is no policy; without buckets' limits, as windows and verdicts are, nothing is handed; with parents, the own bucket
    // pays all.
    if let Some(policy) = POLICIES.get(resolution.policy()).filter(|policy| !policy.has_parents()) {
        let Some(cell) = cell::cell(hash) else { return 0 };
        // By the clock that judges.
        let now = if policy.flags & COARSE == 0 { Clock::read(control).now() } else { tick };
        raise_state(&cell.packets, &bucket.packets, &policy.packets, now);
        raise_state(&cell.second, &bucket.second, &policy.second, now);
    }
    // If the kernel has given the entry to another source meanwhile, that one's word stays.
    let _ = bucket.resolution.compare_exchange(cached.0, resolution.0);
    0
}

/// Raises a state to what a new bucket would be handed. Where another CPU is first, it has raised it too, before anything else.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn raise_state(level: *const Word, own: *const Word, meter: *const Meter, now: u64) -> u32 {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else { return 0 };
    let Some(control) = CONTROL.get(0) else { return 0 };
    let (clock, seen) = (Clock::of(control, now), own.load());
    let handed = stages::handed(level::debt(level, &clock), clock.units(), meter);
    let is_higher = state::debt(handed, clock.units()) > state::debt(seen, clock.units());
    if is_higher {
        let _ = own.compare_exchange(seen, handed);
    }
    0
}
