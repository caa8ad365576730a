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
    atomic::Word,
    bucket::Tracked,
    charge::Charge,
    clock::Clock,
    front,
    log::{self, Logged},
    maps::CONTROL,
    notes,
    pair::Pair,
    settings, tracking,
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

/// Puts down in the visit what windows or a log say to a packet. Its source's bucket is made if it is not at hand, or its log.
#[inline(never)]
#[must_use]
pub fn ask(visit: &mut Visit, at_hand: Option<&'static Tracked>) -> Option<&'static Tracked> {
    // With a budget there was none left; without, the map took no more.
    visit.reason = if front::is_on() { Reason::NotAdmitted } else { Reason::TableFull };
    let (control, policy) = (CONTROL.get(0)?, visit.policy()?);
    let bucket = if keeps_logs(policy) {
        let log = log_of(&visit.source, control, visit.tick);
        notes::settle(visit, log.map(|log| &log.bucket));
        visit.reason = match log::ask(log?, policy, visit.now) {
            Charge::Paid => Reason::WithinLimit,
            Charge::Refused => Reason::OverPackets,
            Charge::Contended => Reason::Contended,
        };
        &log?.bucket
    } else {
        let now = gcra::units(visit.tick);
        let bucket = at_hand.or_else(|| bucket_of(&visit.source, now, visit.resolution, control, visit.tick));
        notes::settle(visit, bucket);
        visit.reason = windows::ask(bucket?, policy, visit.now, visit.amounts(policy));
        bucket?
    };
    if visit.reason.passes() {
        bucket.count_passed(1, u64::from(visit.length()));
    }
    Some(bucket)
}

/// The bucket under a key, made in this state if there is none and the budget admits it.
#[inline(always)]
#[must_use]
pub fn bucket_of(
    key: &Source,
    state: u64,
    resolution: Resolution,
    control: &Control,
    tick: u64,
) -> Option<&'static Tracked> {
    if tracking::find(key).is_none() {
        if front::is_on() && !admission::admits(control, tick) {
            return None;
        }
        admission::make(key, state, state, resolution);
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

/// How long a packet is refused still.
#[inline(always)]
#[must_use]
pub fn wait(visit: &Visit, policy: &Policy, bucket: &Tracked, clock: &Clock<'_>) -> Units {
    let amounts = visit.amounts_refused(policy);
    if policy.is_bucket() {
        let Some(cell) = front::cell(visit.hash) else { return 0 };
        // Who is refused by one limit may be by the other as well. One that does not refuse has no wait.
        let first = Pair::new(&cell.packets, &bucket.packets, &policy.packets).wait(amounts[0], clock);
        return first.max(Pair::new(&cell.second, &bucket.second, &policy.second).wait(amounts[1], clock));
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
