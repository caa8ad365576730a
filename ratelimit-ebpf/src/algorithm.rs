//! Limits by windows and logs, which no cell can be asked for; and what differs between all algorithms behind a refusal.

use ratelimit_common::{
    algorithm::Algorithm,
    gcra::{self, Units},
    policy::{Meter, Policy},
    reason::Reason,
    state,
};

use crate::{
    admission,
    atomic::Word,
    bucket::Tracked,
    charge::Charge,
    front,
    log::{self, Logged},
    notes,
    pair::{self, Pair},
    settings, tracking,
    visit::Visit,
    windows,
};

/// Whether any limit counts otherwise than by buckets.
#[inline(always)]
#[must_use]
pub fn are_others_on() -> bool {
    settings::is_on(&settings::WINDOWS_ON) || settings::is_on(&settings::LOGS_ON)
}

/// Whether sources of this policy have logs.
#[inline(always)]
#[must_use]
pub fn keeps_logs(policy: &Policy) -> bool {
    settings::is_on(&settings::LOGS_ON) && policy.algorithm == Algorithm::SlidingLog as u8
}

/// What windows or a log say to a packet. Its source's bucket or log is made if there is none.
#[inline(never)]
#[must_use]
pub fn ask(visit: &mut Visit<'_>) -> Reason {
    let Some(policy) = visit.policy() else { return Reason::NoState };
    if keeps_logs(policy) { ask_log(visit, policy) } else { ask_windows(visit, policy) }
}

#[inline(always)]
fn ask_windows(visit: &mut Visit<'_>, policy: &Policy) -> Reason {
    let bucket = match visit.bucket.or_else(|| tracking::find(&visit.source)) {
        Some(bucket) => bucket,
        None if front::is_on() && !admission::admits(visit.control, visit.tick) => return not_admitted(visit),
        None => {
            admission::make(&visit.source, 0, 0, visit.resolution);
            let Some(bucket) = tracking::find(&visit.source) else { return Reason::TableFull };
            bucket
        }
    };
    visit.bucket = Some(bucket);
    if front::is_on() {
        notes::settle(visit, Some(bucket));
    }
    counted(visit, bucket, windows::ask(bucket, policy, visit.now, visit.amounts(policy)))
}

#[inline(always)]
fn ask_log(visit: &mut Visit<'_>, policy: &Policy) -> Reason {
    let log = match log::find(&visit.source) {
        Some(log) => log,
        None if front::is_on() && !admission::admits(visit.control, visit.tick) => return not_admitted(visit),
        None => {
            log::make(&visit.source);
            let Some(log) = log::find(&visit.source) else { return Reason::TableFull };
            log
        }
    };
    visit.bucket = Some(&log.bucket);
    if front::is_on() {
        notes::settle(visit, Some(&log.bucket));
    }
    let reason = match log::ask(log, policy, visit.now) {
        Charge::Paid => Reason::WithinLimit,
        Charge::Refused => Reason::OverPackets,
        Charge::Contended => Reason::Contended,
    };
    counted(visit, &log.bucket, reason)
}

#[inline(always)]
fn not_admitted(visit: &Visit<'_>) -> Reason {
    notes::settle(visit, None);
    Reason::NotAdmitted
}

#[inline(always)]
fn counted(visit: &Visit<'_>, bucket: &Tracked, reason: Reason) -> Reason {
    if reason.passes() {
        bucket.count_passed(1, u64::from(visit.length()));
    }
    reason
}

/// How long the packet is refused still, that was for this reason.
#[inline(always)]
#[must_use]
pub fn wait(visit: &Visit<'_>, policy: &Policy, bucket: &Tracked, refusal: Reason) -> Units {
    // Both limits may be of packets: then the second one has refused if the first one is not asked, or admits.
    let [cost, amount] = visit.amounts(policy);
    if policy.is_bucket() {
        let Some(cell) = front::cell(visit.hash) else { return 0 };
        let clock = visit.clock();
        let first = Pair::new(&cell.packets, &bucket.packets, &policy.packets, cost);
        let second = Pair::new(&cell.second, &bucket.second, &policy.second, amount);
        let by_second = policy.second.is_on() && refusal == policy.second_reason();
        let by_first = policy.packets.is_on() && refusal == Reason::OverPackets;
        let first = if by_first { pair::wait(&first, &clock) } else { 0 };
        return if by_second { first.max(pair::wait(&second, &clock)) } else { first };
    }
    let nanoseconds = if keeps_logs(policy) {
        log::find(&visit.source).map_or(0, |log: &Logged| log::wait(log, policy, visit.now))
    } else {
        let [packets, second] = &policy.windows;
        let is_first = packets.is_on() && refusal == Reason::OverPackets;
        if is_first {
            windows::wait(&bucket.packets, packets, policy.algorithm, visit.now, cost)
        } else {
            windows::wait(&bucket.second, second, policy.algorithm, visit.now, amount)
        }
    };
    gcra::units(nanoseconds)
}

/// Whether a refusal is certainly the doing of the packet's source. What a new bucket behind a cell owes may be its neighbours': so it must have
/// admitted as much as it holds.
#[inline(always)]
#[must_use]
pub fn is_certain(visit: &Visit<'_>, policy: &Policy, bucket: &Tracked) -> bool {
    if !front::is_on() || !policy.is_bucket() {
        return true;
    }
    let ([cost, amount], now) = (visit.amounts(policy), visit.clock().units());
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
