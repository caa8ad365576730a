//! Limits that count in windows of the clock: one compare-and-exchange each.

use ratelimit_common::{algorithm::Algorithm, policy::Policy, reason::Reason, window::Window};

use crate::{
    atomic::Word,
    bucket::Tracked,
    charge::{self, Charge},
    cpu,
};

/// What the windows of a policy say to a packet that counts as so much in either, and is counted if it passes. Both are asked before either is
/// charged.
#[inline(never)]
#[must_use]
pub fn ask(bucket: &Tracked, policy: &Policy, now: u64, [cost, amount]: [u32; 2]) -> Reason {
    let ([packets, second], algorithm) = (&policy.windows, policy.algorithm);
    let has_both = packets.is_on() && second.is_on();
    if has_both && next(bucket.second.load(), second, algorithm, now, amount).is_none() {
        return policy.second_reason();
    }
    if packets.is_on() {
        match charge(&bucket.packets, packets, algorithm, now, cost) {
            Charge::Paid => {}
            Charge::Refused => return Reason::OverPackets,
            Charge::Contended => return Reason::Contended,
        }
    }
    if second.is_on() {
        let outcome = charge(&bucket.second, second, algorithm, now, amount);
        if outcome != Charge::Paid && has_both {
            refund(&bucket.packets, packets, now, cost);
        }
        match outcome {
            Charge::Paid => {}
            Charge::Refused => return policy.second_reason(),
            Charge::Contended => return Reason::Contended,
        }
    }
    Reason::WithinLimit
}

/// Nanoseconds for which a window refuses still.
#[inline(never)]
#[must_use]
pub fn wait(state: &Word, window: &Window, algorithm: u8, now: u64, amount: u32) -> u64 {
    if algorithm == Algorithm::FixedWindow as u8 {
        window.wait_fixed(now)
    } else {
        window.wait_sliding(state.load(), now, u64::from(amount))
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

#[inline(always)]
fn charge(state: &Word, window: &Window, algorithm: u8, now: u64, amount: u32) -> Charge {
    charge::exchange::<{ charge::TRIES }>(state, |seen| next(seen, window, algorithm, now, amount))
}

/// Gives a charge back while its window is running.
#[inline(never)]
fn refund(state: &Word, window: &Window, now: u64, amount: u32) {
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(state, |seen| window.refund(seen, now, u64::from(amount)));
    if outcome == Charge::Contended {
        cpu::lost_race();
    }
}
