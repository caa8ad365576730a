//! Asks the limits of a source: its cell, its own bucket or log, and the limits above.

use ratelimit_common::{
    limits::policy::{COARSE, Policy},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, settings},
    cells::{cell, level},
    limits::{parents, source_bucket, windowed},
    meters::{charge::Charge, sliding_log, token_bucket::Tracked, window},
    packet::context::Visit,
    telemetry::samples,
};

/// Puts down in the visit what the limits of a policy say. The bucket that counts for the source, where one was asked.
#[inline(always)]
#[must_use]
pub fn ask(
    visit: &mut Visit,
    control: &Control,
    policy: &Policy,
    bucket: Option<&'static Tracked>,
) -> Option<&'static Tracked> {
    if windowed::are_others_on() && !policy.is_bucket() {
        set_clock(visit, control, policy);
        return ask_others(visit, policy, bucket);
    }
    if settings::is_on(&settings::PARENTS_ON) && policy.has_parents() {
        set_clock(visit, control, policy);
        return parents::ask(visit, bucket);
    }
    if !policy.packets.is_on() && !policy.second.is_on() {
        samples::observe(visit);
        return bucket;
    }
    set_clock(visit, control, policy);
    let clock = visit.clock(control);
    if !cell::is_on() {
        visit.reason = Reason::TableFull;
        let bucket = bucket?;
        visit.reason = bucket.ask(policy, &clock, visit.amounts(policy));
        if visit.reason.passes() {
            bucket.counts.count_passed(1, u64::from(visit.length()));
        }
        return Some(bucket);
    }
    visit.reason = Reason::NoState;
    let cell = cell::cell(visit.hash)?;
    visit.reason = match level::ask(cell, policy, &clock, visit) {
        Charge::Paid => Reason::WithinLimit,
        Charge::Refused => return source_bucket::ask(visit),
        Charge::Contended => Reason::Contended,
    };
    // Added and not exclusive-or'd, which would cancel out the time that both levels follow.
    if samples::is_due(visit.hash, cell.packets.load().wrapping_add(cell.second.load())) {
        samples::record(visit);
    }
    bucket
}

/// Where the policy goes by the precise clock, the time is read anew.
#[inline(always)]
fn set_clock(visit: &mut Visit, control: &Control, policy: &Policy) {
    if policy.flags & COARSE == 0 {
        visit.now = Clock::read(control).now();
    }
}

/// Windows and logs. What is at hand without cells is asked without a call.
#[inline(always)]
fn ask_others(visit: &mut Visit, policy: &Policy, bucket: Option<&'static Tracked>) -> Option<&'static Tracked> {
    let (bucket, reason) = match (cell::is_on(), windowed::keeps_logs(policy), bucket) {
        (false, true, _) => match sliding_log::find(&visit.source) {
            Some(log) => (&log.bucket, windowed::ask_log(log, policy, visit.now)),
            None => return windowed::ask(visit),
        },
        (false, false, Some(bucket)) => (bucket, window::ask(bucket, policy, visit.now, visit.amounts(policy))),
        _ => return windowed::ask(visit),
    };
    visit.reason = reason;
    if reason.passes() {
        bucket.counts.count_passed(1, u64::from(visit.length()));
    }
    Some(bucket)
}
