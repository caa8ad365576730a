//! Entries of the maps of buckets and logs, made on demand within the budget.

use ratelimit_common::{buckets::bucket::Resolution, identity::source::Source, maps::control::Control, reason::Reason};

use crate::{
    buckets::admission,
    cells::cell,
    meters::{
        sliding_log::{self, Logged},
        token_bucket::Tracked,
    },
    rules::cache,
};

/// The bucket under a key, made in this state if there is none.
///
/// # Errors
///
/// [`Reason::NotAdmitted`] where the budget is spent, [`Reason::TableFull`] where the map took none.
#[inline(always)]
pub fn bucket(
    key: &Source,
    state: u64,
    resolution: Resolution,
    control: &Control,
    tick: u64,
) -> Result<&'static Tracked, Reason> {
    if let Some(found) = cache::find(key) {
        return Ok(found);
    }
    if !is_admitted(control, tick) {
        return Err(Reason::NotAdmitted);
    }
    admission::make(key, state, state, resolution);
    cache::find(key).ok_or(Reason::TableFull)
}

/// The log under a key, made empty in the same way.
///
/// # Errors
///
/// The same.
#[inline(always)]
pub fn log(key: &Source, control: &Control, tick: u64) -> Result<&'static Logged, Reason> {
    if let Some(found) = sliding_log::find(key) {
        return Ok(found);
    }
    if !is_admitted(control, tick) {
        return Err(Reason::NotAdmitted);
    }
    sliding_log::make(key);
    sliding_log::find(key).ok_or(Reason::TableFull)
}

/// Makes the bucket under a key if there is none. Whether the budget admits it.
#[inline(never)]
#[must_use]
pub fn ensure(key: &Source, state: u64, resolution: Resolution, control: &Control, tick: u64) -> bool {
    if cache::find(key).is_some() {
        return true;
    }
    let is_admitted = is_admitted(control, tick);
    if is_admitted {
        admission::make(key, state, state, resolution);
    }
    is_admitted
}

/// Without cells there is no budget.
#[inline(always)]
fn is_admitted(control: &Control, tick: u64) -> bool {
    !cell::is_on() || admission::admits(control, tick)
}
