//! Changes of a word that other CPUs change too.
//!
//! A compare-and-exchange fails if another CPU was faster. [`exchange`] gives up after some tries, for changes that may
//! be left out. [`charge`] does not: its last step is an addition, which always succeeds and returns the word that it
//! found. If the packet does not fit that word, it is refused. What it added then only refuses more.
//!
//! So a packet that loses every try is charged or refused, and never passes uncharged
//! (docs/algorithms.md, *Several CPUs*).

use ratelimit_common::{limits::policy::Policy, reason::Reason};

use crate::{bpf::atomic::Word, maps::this_cpu};

/// Number of tries of a change that may be left out, since the verifier walks through every try.
pub const FEW_TRIES: u32 = 8;
/// Number of tries before the addition.
pub const TRIES: u32 = 4;

/// Binary digits of the number of CPUs that may add to one word at the same time.
const CPU_BITS: u32 = 9;

/// Outcome of charging one limit.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
pub enum Charge {
    /// The limit has room, and the packet is charged.
    Paid,
    /// The limit has no room.
    Refused,
}

/// Amounts that an addition may add. Outside of them, a packet that loses every try is refused.
#[derive(Clone, Copy)]
pub struct Addition {
    /// Least amount.
    pub least: u64,
    /// Largest amount.
    pub most: u64,
}

impl Addition {
    /// Returns the amounts from `least` on that fit a word with this room, even if every CPU adds one.
    #[inline(always)]
    #[must_use]
    pub const fn within(room: u64, least: u64) -> Self {
        Self { least, most: room >> CPU_BITS }
    }

    /// Returns exactly this amount, if it fits.
    #[inline(always)]
    #[must_use]
    pub const fn of(room: u64, amount: u64) -> Self {
        Self { least: amount, most: if amount <= room >> CPU_BITS { amount } else { 0 } }
    }
}

/// Replaces a word by the result of `next`, unless that is `None`. Tries again where another CPU was first. Returns
/// whether it was replaced.
#[inline(always)]
pub fn exchange<const MOST: u32>(word: &Word, mut next: impl FnMut(u64) -> Option<u64>) -> bool {
    let mut seen = word.load();
    for _ in 0..MOST {
        let Some(after) = next(seen) else { return false };
        match word.compare_exchange(seen, after) {
            Ok(()) => return true,
            Err(actual) => seen = actual,
        }
        this_cpu::lost_race();
    }
    false
}

/// Replaces a word by the result of `next`, or by more, unless that is `None`. The last value that `next` gets is the
/// one that was replaced. Returns the new value.
///
/// `next` must be of the kind of a debt or a count: it adds to the word, and more in the word never leads to less.
#[inline(always)]
pub fn charge<const MOST: u32>(
    word: &Word,
    addition: Addition,
    mut next: impl FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    let mut seen = word.load();
    for _ in 0..MOST {
        let after = next(seen)?;
        match word.compare_exchange(seen, after) {
            Ok(()) => return Some(after),
            Err(actual) => seen = actual,
        }
        this_cpu::lost_race();
    }
    let added = next(seen)?.wrapping_sub(seen);
    if added < addition.least || added > addition.most {
        return None;
    }
    let found = word.fetch_add(added);
    let (charged, after) = (found.wrapping_add(added), next(found));
    match after {
        // It is more if another CPU has brought a word of the past up to now as well.
        Some(after) if after.wrapping_sub(found) <= added => Some(charged),
        // Another CPU was faster. What it has written since keeps the surplus.
        _ => {
            let _ = word.compare_exchange(charged, found);
            None
        }
    }
}

/// Gives a charge back if no other CPU has changed the word since. Otherwise the charge stays: time may have drained it
/// meanwhile, so that the debt belongs to another packet.
#[inline(always)]
pub fn undo(word: &Word, written: u64, charge: u64) {
    let _ = word.compare_exchange(written, written.wrapping_sub(charge));
}

/// Charges the limits of a policy that are on, the limit of packets first. If the second one refuses after all, the first
/// charge is given back. Returns the charged states.
///
/// # Errors
///
/// Returns the reason of a refusal.
#[inline(always)]
pub fn charge_both(
    policy: &Policy,
    [has_packets, has_second]: [bool; 2],
    charge_packets: impl FnOnce() -> Option<u64>,
    charge_second: impl FnOnce() -> Option<u64>,
    refund_packets: impl FnOnce(u64),
) -> Result<[u64; 2], Reason> {
    let mut charged = [0; 2];
    if has_packets {
        charged[0] = charge_packets().ok_or(Reason::OverPackets)?;
    }
    if has_second {
        let Some(state) = charge_second() else {
            if has_packets {
                refund_packets(charged[0]);
            }
            return Err(policy.second_reason());
        };
        charged[1] = state;
    }
    Ok(charged)
}

#[cfg(test)]
mod tests;
