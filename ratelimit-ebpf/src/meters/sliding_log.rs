//! Limits that keep a sliding log of each source: exact in every window, in a map of their own.

use ratelimit_common::{
    identity::source::Source,
    limits::{algorithm::Algorithm, policy::Policy},
    meters::{
        sliding_log::{PLACES, Place, decisive},
        window::Window,
    },
    reason::Reason,
};

use crate::{
    bpf::{
        settings,
        verifier::{given, key},
    },
    maps::{
        exchange::Charge,
        sliding_logs::{self, SlidingLog},
        this_cpu,
    },
};

/// Number of tries. Each lost one means that another CPU has admitted a packet, or has moved the count on for one. A log
/// admits at most [`PLACES`] packets in a window, and then refuses. So the tries do not run out.
const MOST_TRIES: u32 = 2 * PLACES as u32 + 1;

/// Returns whether sources of this policy keep sliding logs.
#[inline(always)]
#[must_use]
pub fn is_kept_by(policy: &Policy) -> bool {
    settings::has_sliding_logs() && policy.algorithm == Algorithm::SlidingLog as u8
}

/// Checks a packet at `now` against both limits of a policy, and writes it into the log if it passes.
#[inline(always)]
#[must_use]
pub fn ask(log: &SlidingLog, policy: &Policy, now: u64) -> Reason {
    match ask_log(log, policy, now) {
        Charge::Paid => Reason::WithinLimit,
        Charge::Refused => Reason::OverPackets,
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_log(log: *const SlidingLog, policy: *const Policy, now: u64) -> Charge {
    if !settings::has_sliding_logs() {
        return Charge::Refused;
    }
    let (Some(log), Some(policy)) = (given(log), given(policy)) else { return Charge::Refused };
    let [first, second] = &policy.windows;
    for _ in 0..MOST_TRIES {
        let number = log.admitted.load();
        let own = log.at(number);
        let seen = Place(own.load());
        if seen.is_of(number) {
            // Another CPU has written this place and not counted it yet.
            let _ = log.admitted.compare_exchange(number, number + 1);
            this_cpu::lost_race();
            continue;
        }
        let (left, also_left) = (left(log, first, number, now), left(log, second, number, now));
        if left == OVERWRITTEN || also_left == OVERWRITTEN {
            this_cpu::lost_race();
            continue;
        }
        if left != 0 || also_left != 0 {
            return Charge::Refused;
        }
        let before = Place(log.at(number.wrapping_sub(1)).load());
        let before = if number == 0 { None } else { Some(before) };
        if own.compare_exchange(seen.0, Place::new(number, now, before).0).is_ok() {
            let _ = log.admitted.compare_exchange(number, number + 1);
            return Charge::Paid;
        }
        this_cpu::lost_race();
    }
    Charge::Refused
}

/// Returns the nanoseconds for which a source's log still refuses the next packet.
#[inline(always)]
#[must_use]
pub fn wait(source: &Source, policy: &Policy, now: u64) -> u64 {
    wait_of_log(source, policy, now)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_log(source: *const Source, policy: *const Policy, now: u64) -> u64 {
    if !settings::has_sliding_logs() {
        return 0;
    }
    let (Some(source), Some(policy)) = (given(source), given(policy)) else { return 0 };
    let Some(log) = sliding_logs::find(&key(source)) else { return 0 };
    let ([first, second], number) = (&policy.windows, log.admitted.load());
    let left = left(log, first, number, now).max(left(log, second, number, now));
    // The next packet checks the log again.
    if left == OVERWRITTEN { 0 } else { left }
}

/// Result of [`left`] if other packets were admitted meanwhile and overwrote the decisive one.
const OVERWRITTEN: u64 = u64::MAX;

/// Returns the nanoseconds until a limit admits the packet of this number, or [`OVERWRITTEN`].
#[inline(always)]
fn left(log: &SlidingLog, window: &Window, number: u64, now: u64) -> u64 {
    let Some(decisive) = decisive(number, window.limit) else { return 0 };
    if !window.is_on() {
        return 0;
    }
    let place = Place(log.at(decisive).load());
    if place.is_of(decisive) { window.length.saturating_sub(place.age(now)) } else { OVERWRITTEN }
}
