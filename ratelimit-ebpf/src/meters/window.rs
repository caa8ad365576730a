//! Limits that count in windows of the clock, with one compare-and-exchange each.

use ratelimit_common::{
    limits::{algorithm::Algorithm, policy::Policy},
    meters::{
        state::{FIXED, SLIDING, kind},
        window::Window,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, settings, verifier::given},
    maps::{
        buckets::Bucket,
        exchange::{self, Addition, FEW_TRIES, TRIES, exchange},
    },
};

/// Result of a refusal where a state is returned otherwise. No count is even.
const REFUSED: u64 = 0;

/// Checks a packet that counts as `cost` and `amount` against both windows, and counts it if it passes. Both are
/// checked before either is charged.
#[inline(always)]
#[must_use]
pub fn ask(bucket: &Bucket, policy: &Policy, now: u64, [cost, amount]: [u32; 2]) -> Reason {
    let [packets, second] = &policy.windows;
    // Most packets need only this, without a call.
    if packets.is_on() && !second.is_on() {
        let seen = bucket.packets.load();
        if let Some(next) = next(seen, packets, policy.algorithm, now, cost)
            && bucket.packets.compare_exchange(seen, next).is_ok()
        {
            return Reason::WithinLimit;
        }
    }
    ask_globally(bucket, policy, now, [cost, amount])
}

/// Checks and counts like [`ask`], all in a [global function](crate::bpf::verifier).
#[inline(always)]
#[must_use]
pub fn ask_globally(bucket: &Bucket, policy: &Policy, now: u64, [cost, amount]: [u32; 2]) -> Reason {
    ask_windows(bucket, policy, now, cost, amount)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_windows(bucket: *const Bucket, policy: *const Policy, now: u64, cost: u32, amount: u32) -> Reason {
    if !settings::is_on(&settings::WINDOWS_ON) {
        return Reason::WithinLimit;
    }
    let (Some(bucket), Some(policy)) = (given(bucket), given(policy)) else { return Reason::NoState };
    let ([packets, second], algorithm) = (&policy.windows, policy.algorithm);
    if packets.is_on() && second.is_on() && next(bucket.second.load(), second, algorithm, now, amount).is_none() {
        return policy.second_reason();
    }
    let charged = |state: u64| (state != REFUSED).then_some(state);
    exchange::charge_both(
        policy,
        [packets.is_on(), second.is_on()],
        || charged(charge_window(&raw const bucket.packets, packets, algorithm, now, cost)),
        || charged(charge_window(&raw const bucket.second, second, algorithm, now, amount)),
        |_| {
            let _ = refund_window(&raw const bucket.packets, packets, algorithm, now, cost);
        },
    )
    .err()
    .unwrap_or(Reason::WithinLimit)
}

/// Returns the nanoseconds for which the windows of a policy still refuse.
#[inline(always)]
#[must_use]
pub fn wait(bucket: &Bucket, policy: &Policy, now: u64, [cost, amount]: [u32; 2]) -> u64 {
    wait_of_windows(bucket, policy, now, cost, amount)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_windows(bucket: *const Bucket, policy: *const Policy, now: u64, cost: u32, amount: u32) -> u64 {
    if !settings::is_on(&settings::WINDOWS_ON) {
        return 0;
    }
    let (Some(bucket), Some(policy)) = (given(bucket), given(policy)) else { return 0 };
    let [packets, second] = &policy.windows;
    let first = left(bucket.packets.load(), packets, policy.algorithm, now, cost);
    first.max(left(bucket.second.load(), second, policy.algorithm, now, amount))
}

/// Returns the nanoseconds for which one window still refuses; 0 if it does not.
#[inline(always)]
fn left(state: u64, window: &Window, algorithm: u8, now: u64, amount: u32) -> u64 {
    if !window.is_on() || next(state, window, algorithm, now, amount).is_some() {
        0
    } else if algorithm == Algorithm::FixedWindow as u8 {
        window.wait_fixed(now)
    } else {
        window.wait_sliding(state, now, u64::from(amount))
    }
}

#[inline(always)]
fn next(state: u64, window: &Window, algorithm: u8, now: u64, amount: u32) -> Option<u64> {
    if algorithm == Algorithm::FixedWindow as u8 {
        window.ask_fixed(state, now, u64::from(amount))
    } else {
        window.ask_sliding(state, now, u64::from(amount))
    }
}

/// Counts a packet in a window and returns the state, or [`REFUSED`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_window(state: *const Word, window: *const Window, algorithm: u8, now: u64, amount: u32) -> u64 {
    if !settings::is_on(&settings::WINDOWS_ON) {
        return REFUSED;
    }
    let (Some(state), Some(window)) = (given(state), given(window)) else { return REFUSED };
    let (room, unit) = window.room(kind_of(algorithm));
    let addition = Addition::of(room, u64::from(amount) * unit);
    exchange::charge::<TRIES>(state, addition, |seen| next(seen, window, algorithm, now, amount)).unwrap_or(REFUSED)
}

/// Gives a charge back while its window is running and no other algorithm has written the state.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn refund_window(state: *const Word, window: *const Window, algorithm: u8, now: u64, amount: u32) -> bool {
    if !settings::is_on(&settings::WINDOWS_ON) {
        return false;
    }
    let (Some(state), Some(window)) = (given(state), given(window)) else { return false };
    let written = kind_of(algorithm);
    exchange::<FEW_TRIES>(
        state,
        |seen| {
            if kind(seen) == written { window.refund(seen, now, u64::from(amount)) } else { None }
        },
    )
}

/// Returns the kind of the states that an algorithm writes.
#[inline(always)]
fn kind_of(algorithm: u8) -> u64 {
    if algorithm == Algorithm::FixedWindow as u8 { FIXED } else { SLIDING }
}
