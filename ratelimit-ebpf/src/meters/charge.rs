//! Asks one limit, and changes the one word that is its state.

use ratelimit_common::{
    limits::policy::Meter,
    meters::{
        gcra::{self, Answer, SLACK, Units},
        state,
    },
};

use crate::{
    bpf::{atomic::Word, clock::Clock, verifier::given},
    maps::{all::CONTROL, this_cpu},
};

/// How often a change is tried while other CPUs change the same word. Four tries run out for 0.06 % of the packets of one source on two
/// CPUs (kernel 6.18).
pub const TRIES: u32 = 16;
/// The same where it is rarely tried at all, and the verifier walks through every try.
pub const FEW_TRIES: u32 = 8;

/// What became of asking one limit.
#[derive(PartialEq)]
#[repr(u32)]
pub enum Charge {
    /// There was room, and it is taken.
    Paid,
    /// There was none.
    Refused,
    /// Other CPUs changed the word at every try.
    Contended,
}

/// Asks without charging.
#[inline(always)]
pub fn peek(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    match meter.ask(state.load(), clock.units(), cost) {
        Answer::Admit(_) => Charge::Paid,
        Answer::Refuse => Charge::Refused,
        Answer::Cap(_) => {
            cap(state, meter, clock, meter.ceiling);
            Charge::Refused
        }
    }
}

/// Asks and charges in one step, however many CPUs do the same.
#[inline(always)]
pub fn charge(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    charge_within::<TRIES>(state, meter, clock, cost)
}

#[inline(always)]
fn charge_within<const MOST: u32>(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    exchange::<MOST>(state, |seen| match meter.ask(seen, clock.units(), cost) {
        Answer::Admit(next) => Some(next),
        Answer::Refuse => None,
        Answer::Cap(_) => {
            cap(state, meter, clock, meter.ceiling);
            None
        }
    })
}

/// Puts what `next` makes of a word in its place, unless that is nothing, and tries again where another CPU was first.
#[inline(always)]
pub fn exchange<const MOST: u32>(state: &Word, mut next: impl FnMut(u64) -> Option<u64>) -> Charge {
    let mut seen = state.load();
    for _ in 0..MOST {
        let Some(next) = next(seen) else { return Charge::Refused };
        match state.compare_exchange(seen, next) {
            Ok(()) => return Charge::Paid,
            Err(actual) => seen = actual,
        }
        this_cpu::lost_race();
    }
    Charge::Contended
}

/// [`charge`] checked [`apart`](crate::bpf::verifier), for whoever asks many limits.
#[inline(always)]
pub fn charge_apart(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    charge_state(state, meter, clock.now(), cost)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_state(state: *const Word, meter: *const Meter, now: u64, cost: Units) -> Charge {
    let (Some(state), Some(meter), Some(control)) = (given(state), given(meter), CONTROL.get(0)) else {
        return Charge::Contended;
    };
    charge_within::<FEW_TRIES>(state, meter, &Clock::of(control, now), cost)
}

/// Cuts a debt that looks too large for this policy down to `most`, for the packets to come.
///
/// The clock is read once more, after the state: whoever made the debt cannot have read a later time, so that a debt of this
/// policy is never taken for one of an older policy.
#[inline(never)]
pub fn cap(word: &Word, meter: &Meter, clock: &Clock<'_>, most: Units) {
    let (seen, now) = (word.load(), clock.read_again());
    if state::debt(seen, now) > meter.ceiling + SLACK {
        // Losing this to another CPU is harmless: the next packet finds the same.
        let _ = word.compare_exchange(seen, now.wrapping_add(most));
    }
}

/// Gives a charge back, unless it has drained meanwhile: then the debt that is there is another packet's.
///
/// By exchange, so that what another algorithm has written meanwhile is not touched. After so many lost races a token is lost, and none is
/// minted.
#[inline(always)]
pub fn refund(word: &Word, now: Units, cost: Units) {
    refund_state(word, now, cost);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn refund_state(word: *const Word, now: Units, cost: Units) -> Charge {
    let Some(word) = given(word) else { return Charge::Contended };
    exchange::<FEW_TRIES>(word, |seen| (state::debt(seen, now) >= cost).then(|| seen.wrapping_sub(cost)))
}

/// The same for a cell's level, which no other algorithm writes.
#[inline(always)]
pub fn refund_level(level: &Word, now: Units, cost: Units) {
    if gcra::debt(level.load(), now) >= cost {
        level.add(cost.wrapping_neg());
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
