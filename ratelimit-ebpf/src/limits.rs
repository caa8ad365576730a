//! Asks the limits of a source: its cell, its own bucket or log, and the limits above.

use ratelimit_common::{
    control::Control,
    policy::{COARSE, Policy},
    reason::Reason,
};

use crate::{
    algorithm, bucket::Tracked, charge::Charge, clock::Clock, front, levels, log, own, parents, sample, settings,
    visit::Visit, windows,
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
    if algorithm::are_others_on() && !policy.is_bucket() {
        set_clock(visit, control, policy);
        return ask_others(visit, policy, bucket);
    }
    if settings::is_on(&settings::PARENTS_ON) && policy.has_parents() {
        set_clock(visit, control, policy);
        return parents::ask(visit, bucket);
    }
    if !policy.packets.is_on() && !policy.second.is_on() {
        sample::observe(visit);
        return bucket;
    }
    set_clock(visit, control, policy);
    let clock = visit.clock(control);
    if !front::is_on() {
        visit.reason = Reason::TableFull;
        let bucket = bucket?;
        visit.reason = bucket.ask(policy, &clock, visit.amounts(policy));
        if visit.reason.passes() {
            bucket.counts.count_passed(1, u64::from(visit.length()));
        }
        return Some(bucket);
    }
    visit.reason = Reason::NoState;
    let cell = front::cell(visit.hash)?;
    visit.reason = match levels::ask(cell, policy, &clock, visit) {
        Charge::Paid => Reason::WithinLimit,
        Charge::Refused => return own::ask(visit),
        Charge::Contended => Reason::Contended,
    };
    // Added and not exclusive-or'd, which would cancel out the time that both levels follow.
    if sample::is_due(visit.hash, cell.packets.load().wrapping_add(cell.second.load())) {
        sample::record(visit);
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
    let (bucket, reason) = match (front::is_on(), algorithm::keeps_logs(policy), bucket) {
        (false, true, _) => match log::find(&visit.source) {
            Some(log) => (&log.bucket, algorithm::ask_log(log, policy, visit.now)),
            None => return algorithm::ask(visit),
        },
        (false, false, Some(bucket)) => (bucket, windows::ask(bucket, policy, visit.now, visit.amounts(policy))),
        _ => return algorithm::ask(visit),
    };
    visit.reason = reason;
    if reason.passes() {
        bucket.counts.count_passed(1, u64::from(visit.length()));
    }
    Some(bucket)
}
