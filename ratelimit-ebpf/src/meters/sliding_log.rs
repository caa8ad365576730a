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
        sliding_logs::{self, SlidingLog},
        this_cpu,
    },
};

/// Number of tries. Each lost one means that another CPU has admitted a packet. A log admits at most [`PLACES`] packets
/// in a window, and then refuses. So the tries do not run out.
const MOST_TRIES: u32 = PLACES as u32 + 1;

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
    if ask_log(log, policy, now) == PAID { Reason::WithinLimit } else { Reason::OverPackets }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_log(log: *const SlidingLog, policy: *const Policy, now: u64) -> u32 {
    let mut outcome = LOST;
    for _ in 0..MOST_TRIES {
        outcome = try_log(log, policy, now);
        if outcome != LOST {
            break;
        }
    }
    outcome
}

// Results of `try_log`. `LOST` means that another CPU was first.
const REFUSED: u32 = 0;
const PAID: u32 = 1;
const LOST: u32 = 2;

/// Tries once. A function of its own, so that the verifier walks through it once and not for each try.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn try_log(log: *const SlidingLog, policy: *const Policy, now: u64) -> u32 {
    if !settings::has_sliding_logs() {
        return REFUSED;
    }
    let (Some(log), Some(policy)) = (given(log), given(policy)) else { return REFUSED };
    let ([first, second], number) = (&policy.windows, log.admitted.load());
    let own = log.at(number);
    let seen = Place(own.load());
    // Otherwise another CPU has written this place and not counted it yet.
    if !seen.is_of(number) {
        let (left, also_left) = (left(log, first, number, now), left(log, second, number, now));
        if left == OVERWRITTEN || also_left == OVERWRITTEN {
            this_cpu::lost_race();
            return LOST;
        }
        if left != 0 || also_left != 0 {
            return REFUSED;
        }
        let before = Place(log.at(number.wrapping_sub(1)).load());
        let before = if number == 0 { None } else { Some(before) };
        if own.compare_exchange(seen.0, Place::new(number, now, before).0).is_ok() {
            let _ = log.admitted.compare_exchange(number, number + 1);
            return PAID;
        }
    }
    let _ = log.admitted.compare_exchange(number, number + 1);
    this_cpu::lost_race();
    LOST
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
