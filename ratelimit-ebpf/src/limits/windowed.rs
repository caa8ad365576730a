//! Limits by windows and logs, which no cell can be asked for; and what differs between all algorithms behind a refusal.

use ratelimit_common::{
    limits::{
        algorithm::Algorithm,
        policy::{Meter, Policy},
    },
    meters::{
        gcra::{self, Units},
        state,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings},
    buckets::create,
    cells::cell,
    limits::pair::Pair,
    maps::all::CONTROL,
    meters::{
        charge::Charge,
        sliding_log::{self, Logged},
        token_bucket::Tracked,
        window,
    },
    overlimit::refusals,
    packet::context::Visit,
};

/// Whether any limit counts otherwise than by buckets.
#[inline(always)]
#[must_use]
pub fn are_others_on() -> bool {
    settings::is_on(&settings::WINDOWS_ON) || are_logs_on()
}

/// Whether any limit keeps logs.
#[inline(always)]
#[must_use]
pub fn are_logs_on() -> bool {
    settings::is_on(&settings::SLIDING_LOGS_ON)
}

/// Whether sources of this policy have logs.
#[inline(always)]
#[must_use]
pub fn keeps_logs(policy: &Policy) -> bool {
    are_logs_on() && policy.algorithm == Algorithm::SlidingLog as u8
}

/// Puts down in the visit what windows or a log say to a packet. Its source's bucket or log is made if there is none.
#[inline(never)]
#[must_use]
pub fn ask(visit: &mut Visit) -> Option<&'static Tracked> {
    visit.reason = Reason::NoState;
    let (control, policy) = (CONTROL.get(0)?, visit.policy()?);
    let outcome = if keeps_logs(policy) {
        let log = create::log(&visit.source, control, visit.tick);
        refusals::settle(visit, log.as_ref().ok().map(|log| &log.bucket));
        log.map(|log| (&log.bucket, ask_log(log, policy, visit.now)))
    } else {
        // A time, which owes nothing should a bucket be asked one day, and counts nothing.
        let state = gcra::units(visit.tick);
        let bucket = create::bucket(&visit.source, state, visit.resolution, control, visit.tick);
        refusals::settle(visit, bucket.as_ref().ok().copied());
        bucket.map(|bucket| (bucket, window::ask(bucket, policy, visit.now, visit.amounts(policy))))
    };
    let (bucket, reason) = match outcome {
        Ok((bucket, reason)) => (Some(bucket), reason),
        Err(reason) => (None, reason),
    };
    visit.reason = reason;
    if let Some(bucket) = bucket.filter(|_| reason.passes()) {
        bucket.counts.count_passed(1, u64::from(visit.length()));
    }
    bucket
}

/// What a log says to a packet.
#[inline(always)]
#[must_use]
pub fn ask_log(log: &Logged, policy: &Policy, now: u64) -> Reason {
    match sliding_log::ask(log, policy, now) {
        Charge::Paid => Reason::WithinLimit,
        Charge::Refused => Reason::OverPackets,
        Charge::Contended => Reason::Contended,
    }
}

/// How long a packet is refused still.
#[inline(always)]
#[must_use]
pub fn wait(visit: &Visit, policy: &Policy, bucket: &Tracked, clock: &Clock<'_>) -> Units {
    let amounts = visit.amounts_refused(policy);
    if policy.is_bucket() {
        let Some(cell) = cell::cell(visit.hash) else { return 0 };
        // Who is refused by one limit may be by the other as well. One that does not refuse has no wait.
        let first = Pair::new(&cell.packets, &bucket.packets, &policy.packets).wait(amounts[0], clock);
        return first.max(Pair::new(&cell.second, &bucket.second, &policy.second).wait(amounts[1], clock));
    }
    let nanoseconds = if keeps_logs(policy) {
        sliding_log::wait(&visit.source, policy, visit.now)
    } else {
        window::wait(bucket, policy, visit.now, amounts)
    };
    gcra::units(nanoseconds)
}

/// Whether a refusal is certainly the doing of the packet's source. What a new bucket behind a cell owes may be its neighbours': so it must have
/// admitted as much as it holds.
#[inline(always)]
#[must_use]
pub fn is_certain(visit: &Visit, policy: &Policy, bucket: &Tracked) -> bool {
    if !cell::is_on() || !policy.is_bucket() {
        return true;
    }
    let ([cost, amount], now) = (visit.amounts(policy), gcra::units(visit.now));
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
