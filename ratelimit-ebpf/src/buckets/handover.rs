//! Handover of debt from a cell to a bucket that exists: when the cells' shares become smaller, and when the cell has
//! admitted packets above its share while the bucket was created.
//!
//! If packets of some service cost more than any packet before, the cells' shares shrink. The debt between the new
//! share and the old one is in the cell only. `Control::cell_shares_since` names the generation from which on the
//! shares are smaller. A bucket that was resolved earlier is charged once with the debt that its cell shows, before it
//! decides or is resolved again.
//!
//! The user side writes in this order, each step after an RCU grace period: that number, the policies, the generation.
//! So no packet uses a smaller share with a bucket that was not charged. Until the new generation, buckets are charged
//! at each packet, which can only refuse more. A command that is killed in between leaves this state, and the next rule
//! change ends it.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::policy::{COARSE, Policy},
    maps::control::Control,
    meters::{meter::Meter, stages, state},
};

use crate::{
    bpf::{atomic::Word, clock::Clock, control, settings, verifier::given},
    cells::level,
    maps::{
        buckets::{self, Bucket},
        cells,
        levels::Levels,
        rules,
    },
};

/// Charges a bucket with the debt of its levels above the share, if the shares have shrunk since its policy was
/// resolved. Then it caches the new resolution, so this happens once. `hash` is that of the source.
#[inline(always)]
pub fn follow(
    source: &Source,
    bucket: &'static Bucket,
    hash: u64,
    resolution: Resolution,
    control: &Control,
    tick: u64,
) {
    let cached = bucket.resolved();
    if settings::has_costs() && settings::has_cells() && cached.is_before(control::cell_shares_since(control)) {
        follow_shares(bucket, hash, control, resolution.0, tick);
        buckets::cache(source, bucket, cached, resolution);
    }
}

/// Charges a bucket with the debt of its levels above the share, as if it were created now.
#[inline(always)]
pub fn raise(bucket: &Bucket, levels: &Levels, policy: &Policy, clock: &Clock<'_>) {
    let (control, now) = (clock.control(), clock.now());
    raise_state(&raw const levels.packets, &raw const bucket.packets, &raw const policy.packets, control, now);
    raise_state(&raw const levels.second, &raw const bucket.second, &raw const policy.second, control, now);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn follow_shares(bucket: *const Bucket, hash: u64, control: *const Control, resolution: u64, tick: u64) -> u32 {
    if !settings::has_costs() || !settings::has_cells() {
        return 0;
    }
    let (Some(bucket), Some(control)) = (given(bucket), given(control)) else { return 0 };
    let resolution = Resolution(resolution);
    // There is no policy if another class is billed. Windows and verdicts have nothing to hand over.
    if let Some(policy) = rules::policy(resolution.policy())
        && let Some(levels) = cells::levels(policy, hash)
    {
        let now = if policy.flags & COARSE == 0 { Clock::read(control).now() } else { tick };
        raise(bucket, levels, policy, &Clock::of(control, now));
    }
    0
}

/// Raises a state to that of a new bucket. If another CPU is first, it has raised the state too.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn raise_state(level: *const Word, own: *const Word, meter: *const Meter, control: *const Control, now: u64) -> u32 {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else { return 0 };
    let Some(control) = given(control) else { return 0 };
    let (clock, seen) = (Clock::of(control, now), own.load());
    let handed = stages::handed(level::debt(level, &clock), clock.units(), meter);
    let is_higher = state::debt(handed, clock.units()) > state::debt(seen, clock.units());
    if is_higher {
        let _ = own.compare_exchange(seen, handed);
    }
    0
}
