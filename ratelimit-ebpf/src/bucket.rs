//! A source's own bucket: its limits and what it has counted.

use ratelimit_common::{
    bucket::Bucket,
    gcra::{self, Answer, Units},
    policy::{self, Meter, Policy},
    reason::Reason,
};

use crate::{atomic::Word, clock::Clock};

/// A [`Bucket`] as the CPUs share it.
#[repr(C)]
pub struct Tracked {
    packets: Word,
    bytes: Word,
    /// See [`ratelimit_common::bucket::Resolution`].
    pub resolution: Word,
    passed_packets: Word,
    passed_bytes: Word,
    dropped_packets: Word,
    dropped_bytes: Word,
}
const _: () = assert!(size_of::<Tracked>() == size_of::<Bucket>());

/// How often a change is tried while other CPUs change the same word.
const TRIES: u32 = 16;

/// What became of asking one limit.
#[derive(PartialEq)]
pub enum Charge {
    /// There was room, and it is taken.
    Paid,
    /// There was none.
    Refused,
    /// Other CPUs changed the word at every try.
    Contended,
}

impl Tracked {
    /// The bucket of a source that owes nothing.
    #[inline(always)]
    #[must_use]
    pub const fn new(now: Units, resolution: u64) -> Self {
        Self {
            packets: Word::new(now),
            bytes: Word::new(now),
            resolution: Word::new(resolution),
            passed_packets: Word::new(0),
            passed_bytes: Word::new(0),
            dropped_packets: Word::new(0),
            dropped_bytes: Word::new(0),
        }
    }

    /// What `policy` says to a packet of `length` bytes, which is charged if it passes.
    #[inline(always)]
    pub fn ask(&self, policy: &Policy, clock: &Clock<'_>, length: u32) -> Reason {
        match policy.kind {
            policy::LIMIT => self.ask_limits(&policy.packets, &policy.bytes, clock, length),
            policy::ALLOW => Reason::Allowed,
            policy::DENY => Reason::Denied,
            _ => Reason::NoState,
        }
    }

    /// Both limits are asked before either is charged, and a charge is given back if the other is lost to another CPU
    /// after all: a refusal by one never spends what the other has.
    #[inline(always)]
    fn ask_limits(&self, packets: &Meter, bytes: &Meter, clock: &Clock<'_>, length: u32) -> Reason {
        let byte_cost = bytes.cost_of(length);
        if bytes.is_on() && packets.is_on() && peek(&self.bytes, bytes, clock, byte_cost) == Charge::Refused {
            return Reason::OverBytes;
        }
        let packet_cost = packets.cost_of(1);
        if packets.is_on() {
            match charge(&self.packets, packets, clock, packet_cost) {
                Charge::Paid => {}
                Charge::Refused => return Reason::OverPackets,
                Charge::Contended => return Reason::Contended,
            }
        }
        if bytes.is_on() {
            let outcome = charge(&self.bytes, bytes, clock, byte_cost);
            if outcome != Charge::Paid && packets.is_on() {
                refund(&self.packets, clock.units(), packet_cost);
            }
            match outcome {
                Charge::Paid => {}
                Charge::Refused => return Reason::OverBytes,
                Charge::Contended => return Reason::Contended,
            }
        }
        Reason::WithinLimit
    }

    /// Counts one packet of `length` bytes.
    #[inline(always)]
    pub fn count(&self, passes: bool, length: u32) {
        let (packets, bytes) = if passes {
            (&self.passed_packets, &self.passed_bytes)
        } else {
            (&self.dropped_packets, &self.dropped_bytes)
        };
        packets.add(1);
        bytes.add(u64::from(length));
    }
}

/// Asks without charging.
#[inline(always)]
fn peek(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    match meter.ask(state.load(), clock.units(), cost) {
        Answer::Admit(_) => Charge::Paid,
        Answer::Refuse => Charge::Refused,
        Answer::Cap(_) => {
            cap(state, meter, clock);
            Charge::Refused
        }
    }
}

/// Asks and charges in one step, however many CPUs do the same.
#[inline(always)]
pub fn charge(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    let mut seen = state.load();
    for _ in 0..TRIES {
        let next = match meter.ask(seen, clock.units(), cost) {
            Answer::Admit(next) => next,
            Answer::Refuse => return Charge::Refused,
            Answer::Cap(_) => {
                cap(state, meter, clock);
                return Charge::Refused;
            }
        };
        match state.compare_exchange(seen, next) {
            Ok(()) => return Charge::Paid,
            Err(actual) => seen = actual,
        }
    }
    Charge::Contended
}

/// Cuts a debt that looks too large for this policy down to what the policy can make, for the packets to come.
///
/// The clock is read once more, after the state: whoever made the debt cannot have read a later time, so that a debt of this
/// policy is never taken for one of an older policy.
#[inline(never)]
fn cap(state: &Word, meter: &Meter, clock: &Clock<'_>) {
    let seen = state.load();
    if let Answer::Cap(capped) = meter.ask(seen, clock.read_again(), 1) {
        // Losing this to another CPU is harmless: the next packet finds the same.
        let _ = state.compare_exchange(seen, capped);
    }
}

/// Gives a charge back, unless it has drained meanwhile: then the debt that is there is another packet's.
#[inline(always)]
fn refund(state: &Word, now: Units, cost: Units) {
    if gcra::debt(state.load(), now) >= cost {
        state.add(cost.wrapping_neg());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_given_back_once_and_only_while_it_is_owed() {
        let state = Word::new(1_000 + 30);
        refund(&state, 1_000, 10);
        assert_eq!(state.load(), 1_000 + 20);
        // Nothing is owed any more at 1,020: what was charged has drained.
        refund(&state, 1_020, 10);
        assert_eq!(state.load(), 1_000 + 20);
    }
}
