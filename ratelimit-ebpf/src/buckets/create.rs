//! Creates entries of the maps of buckets and sliding logs within the admission budget: the number of new buckets per
//! second and CPU. So a flood of sources cannot buy more memory.
//!
//! `admission.failed` counts failed inserts. If another CPU inserted the same entry first, nothing is lost.
//!
//! # Handover
//!
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
    maps::control::{Control, LANE_SHARE, SAMPLE_SHARE},
    meters::{gcra, meter::Meter, stages, state},
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings, verifier::given},
    buckets::start,
    maps::{
        buckets::{self, Bucket},
        cells::{self, Levels},
        control,
        exchange::{FEW_TRIES, exchange},
        rules,
        sliding_logs::{self, SlidingLog},
        this_cpu::{self, ThisCpu},
    },
    meters::budget,
};

/// Returns the bucket under a key of this policy. If there is none, creates it in this state.
///
/// # Errors
///
/// Returns [`Reason::NotAdmitted`] if the budget is spent, and [`Reason::TableFull`] if the map refuses the bucket.
#[inline(always)]
pub fn bucket(
    key: &Source,
    policy: &Policy,
    state: u64,
    resolution: Resolution,
    control: &Control,
    tick: u64,
) -> Result<&'static Bucket, Reason> {
    if let Some(found) = buckets::find(key) {
        return Ok(found);
    }
    if !is_admitted(control, policy, tick) {
        return Err(Reason::NotAdmitted);
    }
    buckets::insert(key, state, state, resolution, tick);
    buckets::find(key).ok_or(Reason::TableFull)
}

/// Returns the sliding log under a key of this policy. If there is none, creates an empty one.
///
/// # Errors
///
/// Returns [`Reason::NotAdmitted`] if the budget is spent, and [`Reason::TableFull`] if the map refuses the log.
#[inline(always)]
pub fn sliding_log(key: &Source, policy: &Policy, control: &Control, tick: u64) -> Result<&'static SlidingLog, Reason> {
    if let Some(found) = sliding_logs::find(key) {
        return Ok(found);
    }
    if !is_admitted(control, policy, tick) {
        return Err(Reason::NotAdmitted);
    }
    sliding_logs::insert_empty(key);
    let log = sliding_logs::find(key).ok_or(Reason::TableFull)?;
    log.bucket.counts.begin(tick);
    Ok(log)
}

/// Creates the bucket of a source with this hash, unless another CPU was first. The caller looks for it afterwards. It
/// owes what its levels show, or nothing if it has no policy, because another class is billed.
#[inline(always)]
pub fn of_source(source: &Source, hash: u64, resolution: Resolution, control: &Control, tick: u64) {
    if settings::has_cells() {
        buckets::insert(source, gcra::units(tick), gcra::units(tick), Resolution::NEW, tick);
        if let Some(bucket) = buckets::find(source) {
            let _ = follow(source, bucket, hash, resolution, control);
        }
    } else {
        buckets::insert(source, gcra::units(tick), gcra::units(tick), resolution, tick);
    }
    if settings::divides_bursts() {
        start::spend(source, hash, resolution.0, tick);
    }
}

/// Creates a bucket with the debt that the levels show above the cell's share. So neither a new source nor one whose
/// bucket was evicted gains tokens.
#[inline(always)]
pub fn from_levels(source: &Source, levels: &Levels, policy: &Policy, resolution: Resolution, clock: &Clock<'_>) {
    let handed = |level: &Word, meter| stages::handed(cells::debt(level, clock), clock.units(), meter);
    let (packets, second) = (handed(&levels.packets, &policy.packets), handed(&levels.second, &policy.second));
    buckets::insert(source, packets, second, resolution, clock.now());
}

/// Returns whether the budget admits a new entry. Without cells there is no budget.
#[inline(always)]
fn is_admitted(control: &Control, policy: &Policy, tick: u64) -> bool {
    !settings::has_cells() || admits(control, policy, tick)
}

/// Takes one new bucket for a source of this policy from this CPU's budget. A cost of 0 means that there is no budget.
///
/// Each lane has a smaller budget of its own, so no limit spends the budget of another.
#[inline(always)]
#[must_use]
pub fn admits(control: &Control, policy: &Policy, now: u64) -> bool {
    let lane = policy.lane() as usize;
    if settings::has_lanes() && lane != 0 {
        // All lanes have a state; the comparison is for the verifier.
        return takes(control, now, |cpu| cpu.lanes.get(lane), LANE_SHARE);
    }
    takes(control, now, |cpu| Some(&cpu.admission), 1)
}

/// Takes one new bucket for a record of a source within its limit, from the smaller part of the budget for records.
#[inline(always)]
#[must_use]
pub fn admits_record(control: &Control, now: u64) -> bool {
    takes(control, now, |cpu| Some(&cpu.sampling), SAMPLE_SHARE)
}

#[inline(always)]
fn takes(control: &Control, now: u64, state: impl Fn(&ThisCpu) -> Option<&Word>, times: u64) -> bool {
    let limit = &control.admission;
    let Some(state) = this_cpu::get().and_then(state) else { return false };
    limit.cost != 0 && budget::take(state, gcra::units(now), limit.cost.wrapping_mul(times), limit.burst)
}

/// Charges a bucket with the debt of its levels above the share, if it is new, or if the shares have shrunk since its
/// policy was resolved. Then it caches the new resolution, so this happens once. `hash` is that of the source. Returns
/// false if other CPUs were faster at each try, so that the bucket must not decide.
#[inline(always)]
pub fn follow(source: &Source, bucket: &'static Bucket, hash: u64, resolution: Resolution, control: &Control) -> bool {
    let cached = bucket.resolved();
    let is_earlier = settings::has_costs() && cached.is_before(control::cell_shares_since(control));
    if settings::has_cells() && (cached == Resolution::NEW || is_earlier) {
        if raise_bucket(bucket, hash, control, resolution.0) == 0 {
            return false;
        }
        buckets::cache_resolution(source, bucket, cached, resolution);
    }
    true
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn raise_bucket(bucket: *const Bucket, hash: u64, control: *const Control, resolution: u64) -> u32 {
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
