//! Handover of debt from a cell to a bucket that exists: when the bucket is new, and when the cells' shares become
//! smaller.
//!
//! While a bucket is created, other CPUs may find none, and charge the cell alone. So whoever finds a bucket that is still
//! [new](Resolution::NEW) charges it with the debt that its cell shows, before it decides for the first time.
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
    maps::{
        buckets::{self, Bucket},
        cells,
        exchange::{FEW_TRIES, exchange},
        levels::Levels,
        rules,
    },
};

/// Charges a bucket with the debt of its levels above the share, if it is new, or if the shares have shrunk since its
/// policy was resolved. Then it caches the new resolution, so this happens once. `hash` is that of the source. Returns
/// false if other CPUs were faster at each try, so that the bucket must not decide.
#[inline(always)]
pub fn follow(source: &Source, bucket: &'static Bucket, hash: u64, resolution: Resolution, control: &Control) -> bool {
    let cached = bucket.resolved();
    let is_earlier = settings::has_costs() && cached.is_before(control::cell_shares_since(control));
    if settings::has_cells() && (cached == Resolution::NEW || is_earlier) {
        if raise(bucket, hash, control, resolution.0) == 0 {
            return false;
        }
        buckets::cache(source, bucket, cached, resolution);
    }
    true
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn raise(bucket: *const Bucket, hash: u64, control: *const Control, resolution: u64) -> u32 {
    if !settings::has_cells() {
        return 0;
    }
    let (Some(bucket), Some(control)) = (given(bucket), given(control)) else { return 0 };
    // There is no policy if another class is billed. Windows and verdicts have nothing to hand over.
    let Some(policy) = rules::policy(Resolution(resolution).policy()) else { return 1 };
    let Some(levels) = cells::levels(policy, hash) else { return 1 };
    u32::from(raise_both(bucket, levels, policy, control))
}

/// Raises both states to those of a new bucket. Returns false if other CPUs were faster at each try.
#[inline(always)]
pub(crate) fn raise_both(bucket: &Bucket, levels: &Levels, policy: &Policy, control: &Control) -> bool {
    let is_coarse = u32::from(policy.flags & COARSE != 0);
    let Policy { packets, second, .. } = policy;
    raise_state(&raw const levels.packets, &raw const bucket.packets, packets, control, is_coarse) != 0
        && raise_state(&raw const levels.second, &raw const bucket.second, second, control, is_coarse) != 0
}

/// Raises a state to that of a new bucket. The clock is read after the level, so that what it shows of one source is at most
/// the burst.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn raise_state(
    level: *const Word,
    own: *const Word,
    meter: *const Meter,
    control: *const Control,
    is_coarse: u32,
) -> u32 {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else { return 0 };
    let Some(control) = given(control) else { return 0 };
    // This orders the look-up of the bucket before the level is read, on every kind of CPU.
    let level = level.fetch_add(0);
    let clock = if is_coarse == 0 { Clock::read(control) } else { Clock::coarse(control) };
    let now = clock.units();
    let handed = stages::handed(stages::level_debt(level, now, clock.largest_debt()), now, meter);
    let is_lower = |seen| state::debt(seen, now) < state::debt(handed, now);
    let is_raised = exchange::<FEW_TRIES>(own, |seen| is_lower(seen).then_some(handed));
    u32::from(is_raised || !is_lower(own.load()))
}
