//! Asks the limits of a source itself.

use ratelimit_common::{limits::policy::Policy, maps::control::Control, reason::Reason};

use crate::{
    bpf::settings,
    buckets::start,
    cells::level,
    limits::{cells::Cells, source_bucket, stages::charged, windowed, without_bucket},
    maps::{buckets::Bucket, exchange::Charge, levels::Levels, sliding_logs, this_cpu::OWN},
    meters::{sliding_log, token_bucket, window},
    packet::context::Context,
    telemetry::samples,
};

/// Writes the reason that the source's own limits give into the context. Returns the source's bucket, if they needed one.
#[inline(always)]
#[must_use]
pub fn ask(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    cells: Option<Cells>,
    bucket: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    if windowed::are_on() && !policy.is_bucket() {
        context.set_clock(control, policy);
        return ask_windowed(context, control, policy, bucket);
    }
    if !policy.packets.is_on() && !policy.second.is_on() {
        samples::observe(context, control);
        return bucket;
    }
    context.set_clock(control, policy);
    let (clock, amounts) = (context.clock(control), context.amounts(policy));
    let Some(cells) = cells.filter(|_| settings::has_cells()) else {
        context.reason = Reason::TableFull;
        let bucket = bucket?;
        let outcome = token_bucket::ask(bucket, policy, &clock, amounts);
        if settings::is_on(&settings::PARENTS_ON)
            && let Ok(states) = outcome
        {
            charged::record(OWN, policy, amounts, states);
        }
        context.reason = outcome.err().unwrap_or(Reason::WithinLimit);
        count_passed(bucket, context);
        return Some(bucket);
    };
    let is_spent = settings::divides_bursts() && start::is_spent(context, control, cells.levels);
    let charge = if is_spent { Charge::Refused } else { level::ask(cells.levels, policy, &clock, context) };
    if charge == Charge::Refused {
        let bucket = source_bucket::ask(context, control, policy, cells.levels, bucket);
        if bucket.is_none() && context.reason == Reason::WithinLimit {
            without_bucket::ask(context, control, cells.levels);
        }
        return bucket;
    }
    context.reason = Reason::WithinLimit;
    let Levels { packets, second } = cells.levels;
    // Added and not exclusive-or'd, which would cancel out the time that both levels follow.
    if samples::is_due(context.hash, packets.load().wrapping_add(second.load())) {
        samples::record(context, control);
    }
    bucket
}

/// Counts a packet that passes in the source's bucket.
#[inline(always)]
fn count_passed(bucket: &Bucket, context: &Context) {
    if context.reason.passes() {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
    }
}

/// Asks windows and sliding logs. Without cells, an existing bucket or log is asked without a call.
#[inline(always)]
fn ask_windowed(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    bucket: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    let (bucket, reason) = match (settings::has_cells(), sliding_log::is_kept_by(policy), bucket) {
        (false, true, _) => match sliding_logs::find(&context.source) {
            Some(log) => (&log.bucket, sliding_log::ask(log, policy, context.now)),
            None => return windowed::ask(context, control, policy),
        },
        (false, false, Some(bucket)) => (bucket, window::ask(bucket, policy, context.now, context.amounts(policy))),
        _ => return windowed::ask(context, control, policy),
    };
    context.reason = reason;
    count_passed(bucket, context);
    Some(bucket)
}
