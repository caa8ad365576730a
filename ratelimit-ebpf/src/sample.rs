//! Records of sources that exceed nothing, so that the busy ones can be listed.

use ratelimit_common::{control::SAMPLE_RATE, gcra, reason::Reason};

use crate::{admission, settings, tracking, visit::Visit};

/// An odd number whose multiples look drawn at random (the golden ratio's fraction).
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether a packet that passed is one of those to be recorded: one in [`SAMPLE_RATE`], drawn by what nobody can foresee.
#[inline(always)]
#[must_use]
pub fn is_due(hash: u64, level: u64) -> bool {
    const { assert!(SAMPLE_RATE == 1 << 8) };
    settings::is_on(&settings::SAMPLE_ON) && (hash ^ level).wrapping_mul(SCATTER) >> 56 == 0
}

/// Records one packet for all that it stands for, within the budget.
#[inline(never)]
pub fn record(visit: &Visit<'_>) {
    count(visit, SAMPLE_RATE);
}

/// Counts a packet of a source that has no limit, exactly, as long as there is room for its bucket.
#[inline(never)]
#[must_use]
pub fn observe(visit: &Visit<'_>) -> Reason {
    count(visit, 1);
    Reason::WithinLimit
}

#[inline(always)]
fn count(visit: &Visit<'_>, packets: u64) {
    let mut found = visit.bucket.or_else(|| tracking::find(&visit.source));
    if found.is_none() && settings::is_on(&settings::SAMPLE_ON) && admission::admits_record(visit.control, visit.now) {
        let now = gcra::units(visit.now);
        // What fits its cell's part is no debt of the own bucket.
        admission::make(&visit.source, now, now, visit.resolution);
        found = tracking::find(&visit.source);
    }
    if let Some(bucket) = found {
        bucket.count_passed(packets, packets * u64::from(visit.length));
    }
}
