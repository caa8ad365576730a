//! Limits by windows and logs, which no cell can be asked for; and what differs between all algorithms behind a refusal.

use ratelimit_common::{
    algorithm::Algorithm,
    bucket::Resolution,
    control::Control,
    gcra::{self, Units},
    policy::{Meter, Policy},
    reason::Reason,
    source::Source,
    state,
};

use crate::{
    admission,
    apart::{given, handed},
    atomic::Word,
    bucket::Tracked,
    charge::Charge,
    clock::Clock,
    front,
    log::{self, Logged},
    maps::CONTROL,
    notes, overrun, pair, settings, tracking,
    visit::Visit,
    windows,
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
    settings::is_on(&settings::LOGS_ON)
}

/// Whether sources of this policy have logs.
#[inline(always)]
#[must_use]
pub fn keeps_logs(policy: &Policy) -> bool {
    are_logs_on() && policy.algorithm == Algorithm::SlidingLog as u8
}

/// What windows or a log say to a packet. Its source's bucket is made if it is not at hand, or its log.
#[inline(always)]
#[must_use]
pub fn ask(visit: &Visit, bucket: Option<&Tracked>) -> Reason {
    ask_without_cell(visit, handed(bucket))
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_without_cell(visit: *const Visit, bucket: *const Tracked) -> Reason {
    let (Some(visit), Some(control)) = (given(visit), CONTROL.get(0)) else { return Reason::NoState };
    let Some(policy) = visit.policy() else { return Reason::NoState };
    if keeps_logs(policy) {
        let Some(log) = log_of(&visit.source, control, visit.tick) else { return missing(visit, policy) };
        notes::settle(visit, Some(&log.bucket));
        return match log::ask(log, policy, visit.now) {
            Charge::Paid => overrun::passes(visit, &log.bucket, Reason::WithinLimit),
            Charge::Refused => overrun::settle(visit, policy, Some(&log.bucket), Reason::OverPackets),
            Charge::Contended => overrun::passes(visit, &log.bucket, Reason::Contended),
        };
    }
    if let Some(bucket) = given(bucket) {
        return judged(visit, policy, bucket, windows::ask(bucket, policy, visit.now, visit.amounts(policy)));
    }
    let Some(bucket) = bucket_of(&visit.source, visit.resolution, control, visit.tick) else { return missing(visit, policy) };
    judged(visit, policy, bucket, windows::ask(bucket, policy, visit.now, visit.amounts(policy)))
}

#[inline(always)]
fn judged(visit: &Visit, policy: &Policy, bucket: &Tracked, reason: Reason) -> Reason {
    notes::settle(visit, Some(bucket));
    match reason.passes() {
        true => overrun::passes(visit, bucket, reason),
        false => overrun::settle(visit, policy, Some(bucket), reason),
    }
}

/// With a budget there was none left; without, the map took no more.
#[inline(always)]
fn missing(visit: &Visit, policy: &Policy) -> Reason {
    if !front::is_on() {
        return Reason::TableFull;
    }
    notes::settle(visit, None);
    overrun::settle(visit, policy, None, Reason::NotAdmitted)
}

/// The bucket under a key, made if there is none and the budget admits it.
#[inline(always)]
#[must_use]
pub fn bucket_of(key: &Source, resolution: Resolution, control: &Control, tick: u64) -> Option<&'static Tracked> {
    if tracking::find(key).is_none() {
        if front::is_on() && !admission::admits(control, tick) {
            return None;
        }
        admission::make(key, gcra::units(tick), gcra::units(tick), resolution);
    }
    tracking::find(key)
}

/// The log under a key, in the same way.
#[inline(always)]
#[must_use]
pub fn log_of(key: &Source, control: &Control, tick: u64) -> Option<&'static Logged> {
    if log::find(key).is_none() {
        if front::is_on() && !admission::admits(control, tick) {
            return None;
        }
        log::make(key);
    }
    log::find(key)
}

/// What counts for the source of a packet, if it is there: its bucket, or its log.
#[inline(always)]
#[must_use]
pub fn at_hand(visit: &Visit) -> Option<&'static Tracked> {
    match visit.policy() {
        Some(policy) if keeps_logs(policy) => log::find(&visit.source).map(|log| &log.bucket),
        _ => tracking::find(&visit.source),
    }
}

/// How long a packet is refused still.
#[inline(always)]
#[must_use]
pub fn wait(visit: &Visit, policy: &Policy, bucket: &Tracked, clock: &Clock<'_>) -> Units {
    let amounts = visit.amounts(policy);
    if policy.is_bucket() {
        let Some(cell) = front::cell(visit.hash) else { return 0 };
        // Who is refused by one limit may be by the other as well. One that does not refuse has no wait.
        let first = pair::wait(&cell.packets, &bucket.packets, &policy.packets, amounts[0], clock);
        return first.max(pair::wait(&cell.second, &bucket.second, &policy.second, amounts[1], clock));
    }
    let nanoseconds = if keeps_logs(policy) {
        log::find(&visit.source).map_or(0, |log| log::wait(log, policy, visit.now))
    } else {
        windows::wait(bucket, policy, visit.now, amounts)
    };
    gcra::units(nanoseconds)
}

/// Whether a refusal is certainly the doing of the packet's source. What a new bucket behind a cell owes may be its neighbours': so it must have
/// admitted as much as it holds.
#[inline(always)]
#[must_use]
pub fn is_certain(visit: &Visit, policy: &Policy, bucket: &Tracked) -> bool {
    if !front::is_on() || !policy.is_bucket() {
        return true;
    }
    let ([cost, amount], now) = (visit.amounts(policy), gcra::units(visit.now));
    let (packets, bytes) = (bucket.passed_packets.load(), bucket.passed_bytes.load());
    let passed = if policy.second_reason() == Reason::OverPackets { packets } else { bytes };
    is_full(&policy.packets, &bucket.packets, now, cost, packets)
        || is_full(&policy.second, &bucket.second, now, amount, passed)
}

#[inline(always)]
fn is_full(meter: &Meter, state: &Word, now: Units, amount: u32, passed: u64) -> bool {
    let owes = state::debt(state.load(), now);
    meter.is_on() && owes + meter.cost_of(amount) > meter.rest() && meter.is_rest_filled_by(passed)
}
