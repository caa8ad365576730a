//! Limits by windows and sliding logs, which cells cannot decide. Also questions about a refusal whose answers
//! differ by algorithm.

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::Control,
    meters::{
        gcra::{self, Units},
        meter::Meter,
        state,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings},
    buckets::create,
    cells::bucket_filter,
    limits::stages::pair::Pair,
    maps::{buckets::Bucket, levels::Levels},
    meters::{sliding_log, window},
    packet::context::Context,
};

/// Returns whether any limit counts by windows or sliding logs.
#[inline(always)]
#[must_use]
pub fn are_on() -> bool {
    settings::is_on(&settings::WINDOWS_ON) || settings::has_sliding_logs()
}

/// Writes the reason that windows or a sliding log give into the context. Creates the source's bucket or log if there
/// is none.
#[inline(never)]
#[must_use]
pub fn ask(context: &mut Context, control: &Control, policy: &Policy) -> Option<&'static Bucket> {
    let outcome = if sliding_log::is_kept_by(policy) {
        create::sliding_log(&context.source, policy, control, context.tick)
            .map(|log| (&log.bucket, sliding_log::ask(log, policy, context.now)))
    } else {
        // A state that owes nothing to a token bucket, and counts nothing for a window.
        let state = gcra::units(context.tick);
        create::bucket(&context.source, policy, state, context.resolution, control, context.tick)
            .map(|bucket| (bucket, window::ask(bucket, policy, context.now, context.amounts(policy))))
    };
    let (bucket, reason) = match outcome {
        Ok((bucket, reason)) => (Some(bucket), reason),
        Err(reason) => (None, reason),
    };
    context.reason = reason;
    if settings::has_cells() && bucket.is_some() {
        // The next limit may need the bucket.
        bucket_filter::note(context.hash);
    }
    if let Some(bucket) = bucket.filter(|_| reason.passes()) {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
    }
    bucket
}

/// Returns the time for which packets like this one are still refused. `levels` are those that it charges.
#[inline(always)]
#[must_use]
pub fn wait(context: &Context, policy: &Policy, bucket: &Bucket, levels: &Levels, clock: &Clock<'_>) -> Units {
    let amounts = context.amounts_refused(policy);
    if policy.is_bucket() {
        // A source that one limit refuses may be refused by the other as well. A limit that does not refuse has no
        // wait.
        let first = Pair::new(&levels.packets, &bucket.packets, &policy.packets).wait(amounts[0], clock);
        return first.max(Pair::new(&levels.second, &bucket.second, &policy.second).wait(amounts[1], clock));
    }
    let nanoseconds = if sliding_log::is_kept_by(policy) {
        sliding_log::wait(&context.source, policy, context.now)
    } else {
        window::wait(bucket, policy, context.now, amounts)
    };
    gcra::units(nanoseconds)
}

/// Returns whether the packet's source certainly caused the refusal. The debt of a new bucket behind a cell may belong
/// to its neighbours. So the bucket must have admitted as much as it holds.
#[inline(always)]
#[must_use]
pub fn is_certain(context: &Context, policy: &Policy, bucket: &Bucket) -> bool {
    if !settings::has_cells() || !policy.is_bucket() {
        return true;
    }
    let ([cost, amount], now) = (context.amounts(policy), gcra::units(context.now));
    let [packets, bytes] = bucket.counts.passed();
    let passed = if policy.second_reason() == Reason::OverPackets { packets } else { bytes };
    is_full(&policy.packets, &bucket.packets, now, cost, packets)
        || is_full(&policy.second, &bucket.second, now, amount, passed)
}

#[inline(always)]
fn is_full(meter: &Meter, state: &Word, now: Units, amount: u32, passed: u64) -> bool {
    let owes = state::debt(state.load(), now);
    meter.is_on() && owes + meter.cost_of(amount) > meter.rest() && meter.is_rest_filled_by(passed)
}
