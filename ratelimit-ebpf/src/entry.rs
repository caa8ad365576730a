//! Entries of the maps of buckets and logs, made on demand within the budget.

use ratelimit_common::{bucket::Resolution, control::Control, source::Source};

use crate::{
    admission,
    bucket::Tracked,
    front,
    log::{self, Logged},
    tracking,
};

/// The bucket under a key, made in this state if there is none and the budget admits it.
#[inline(always)]
#[must_use]
pub fn bucket(
    key: &Source,
    state: u64,
    resolution: Resolution,
    control: &Control,
    tick: u64,
) -> Option<&'static Tracked> {
    let found = tracking::find(key);
    if found.is_some() || !is_admitted(control, tick) {
        return found;
    }
    admission::make(key, state, state, resolution);
    tracking::find(key)
}

/// The log under a key, made empty in the same way.
#[inline(always)]
#[must_use]
pub fn log(key: &Source, control: &Control, tick: u64) -> Option<&'static Logged> {
    let found = log::find(key);
    if found.is_some() || !is_admitted(control, tick) {
        return found;
    }
    log::make(key);
    log::find(key)
}

/// Makes the bucket under a key if there is none. Whether the budget admits it.
#[inline(never)]
#[must_use]
pub fn ensure(key: &Source, state: u64, resolution: Resolution, control: &Control, tick: u64) -> bool {
    if tracking::find(key).is_some() {
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
    !front::is_on() || admission::admits(control, tick)
}
