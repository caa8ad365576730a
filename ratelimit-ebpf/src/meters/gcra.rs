//! One limit by the generic cell rate algorithm: the word of its state, and changes of it.

use ratelimit_common::{
    maps::control::Control,
    meters::{
        gcra::{self, Answer, SLACK, Units},
        meter::Meter,
        state,
    },
};

use crate::{
    bpf::{atomic::Word, clock::Clock, verifier::given},
    maps::exchange::{Charge, FEW_TRIES, TRIES, exchange},
};

/// Checks whether a cost fits, without a charge.
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

/// Checks whether a cost fits and charges it in one step, however many CPUs do the same.
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

/// Charges like [`charge`], as a [global function](crate::bpf::verifier), for packets with many limits.
#[inline(always)]
pub fn charge_globally(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    charge_state(state, meter, clock.control(), clock.now(), cost)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_state(state: *const Word, meter: *const Meter, control: *const Control, now: u64, cost: Units) -> Charge {
    let (Some(state), Some(meter), Some(control)) = (given(state), given(meter), given(control)) else {
        return Charge::Contended;
    };
    charge_within::<FEW_TRIES>(state, meter, &Clock::of(control, now), cost)
}

/// Cuts a debt that this policy cannot have made down to `most`, for the packets to come.
///
/// The clock is read again after the state. The CPU that made the debt cannot have read a later time, so a debt of this
/// policy is never taken for one of an older policy.
#[inline(never)]
pub fn cap(word: &Word, meter: &Meter, clock: &Clock<'_>, most: Units) {
    let (seen, now) = (word.load(), clock.read_again());
    if state::debt(seen, now) > meter.ceiling + SLACK {
        // If another CPU is first, the next packet finds the same debt.
        let _ = word.compare_exchange(seen, now.wrapping_add(most));
    }
}

/// Gives a charge back, unless it has drained meanwhile. Then the remaining debt belongs to another packet.
///
/// An exchange leaves alone what another algorithm has written meanwhile. If all tries fail, a token is lost, and none
/// is minted.
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

/// Gives a charge back to a cell's level, which no other algorithm writes.
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
        // Nothing is owed any more at 1,020: the charge has drained.
        refund(&state, 1_020, 10);
        assert_eq!(state.load(), 1_000 + 20);
    }
}
