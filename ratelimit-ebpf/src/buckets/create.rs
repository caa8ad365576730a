//! Creates entries of the maps of buckets and sliding logs, within the budget.
//!
//! `admission.failed` counts failed inserts. If another CPU inserted the same entry first, nothing is lost.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::policy::Policy,
    maps::control::Control,
    meters::{gcra, stages},
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings},
    buckets::{admission, handover, start},
    maps::{
        buckets::{self, Bucket},
        levels::{self, Levels},
        sliding_logs::{self, SlidingLog},
    },
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
            let _ = handover::follow(source, bucket, hash, resolution, control);
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
    let handed = |level: &Word, meter| stages::handed(levels::debt(level, clock), clock.units(), meter);
    let (packets, second) = (handed(&levels.packets, &policy.packets), handed(&levels.second, &policy.second));
    buckets::insert(source, packets, second, resolution, clock.now());
}

/// Returns whether the budget admits a new entry. Without cells there is no budget.
#[inline(always)]
fn is_admitted(control: &Control, policy: &Policy, tick: u64) -> bool {
    !settings::has_cells() || admission::admits(control, policy, tick)
}
