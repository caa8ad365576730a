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
    let has_parents = settings::is_on(&settings::PARENTS_ON) && policy.has_parents();
    let is_bucket = !algorithm::are_others_on() || policy.is_bucket();
    if is_bucket && !policy.packets.is_on() && !policy.second.is_on() && !has_parents {
        sample::observe(visit);
        return bucket;
    }
    if policy.flags & COARSE == 0 {
        visit.now = Clock::read(control).now();
    }
    if has_parents {
        return parents::ask(visit, bucket);
    }
    let (clock, amounts) = (visit.clock(control), visit.amounts(policy));
    if !is_bucket {
        // What is at hand without cells is asked without a call.
        let (bucket, reason) = match (front::is_on(), algorithm::keeps_logs(policy), bucket) {
            (false, true, _) => match log::find(&visit.source) {
                Some(log) => (&log.bucket, algorithm::ask_log(log, policy, visit.now)),
                None => return algorithm::ask(visit),
            },
            (false, false, Some(bucket)) => (bucket, windows::ask(bucket, policy, visit.now, amounts)),
            _ => return algorithm::ask(visit),
        };
        visit.reason = reason;
        if reason.passes() {
            bucket.counts.count_passed(1, u64::from(visit.length()));
        }
        return Some(bucket);
    }
    if !front::is_on() {
        visit.reason = Reason::TableFull;
        let bucket = bucket?;
        visit.reason = bucket.ask(policy, &clock, amounts);
        if visit.reason.passes() {
            bucket.counts.count_passed(1, u64::from(visit.length()));
        }
        return Some(bucket);
    }
    visit.reason = Reason::NoState;
    let cell = front::cell(visit.hash)?;
    visit.reason = match levels::ask(cell, policy, &clock, amounts) {
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
