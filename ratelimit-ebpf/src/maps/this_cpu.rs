//! What this CPU has for itself. Nothing interrupts a program on received packets to run it again, so plain words do.

use ratelimit_common::{
    maps::cpu::Cpu,
    meters::gcra::{self, Answer, Units},
};

use crate::{bpf::atomic::Word, maps::all::CPUS};

/// A [`Cpu`] as its CPU sees it.
#[repr(C)]
#[expect(missing_docs, reason = "they are those of `Cpu`")]
pub struct Own {
    pub admission: Word,
    pub sampling: Word,
    pub unknown_left: Word,
    pub unknown_until: Word,
    pub unknown_passed: Word,
    pub admitted: Word,
    pub failed: Word,
    pub bans_failed: Word,
    pub lost_races: Word,
    pub displaced: Word,
    pub replies_sent: Word,
    pub replies_unsent: Word,
}
const _: () = assert!(size_of::<Own>() == size_of::<Cpu>());

/// The entry of this CPU.
#[inline(always)]
#[must_use]
pub fn own() -> Option<&'static Own> {
    CPUS.get(0)
}

/// Counts that another CPU was first. A function of its own, for the verifier to go on from it in one state.
#[inline(never)]
pub fn lost_race() {
    if let Some(own) = own() {
        own.lost_races.increment();
    }
}

/// Whether a budget of this CPU has one more, which is taken.
#[inline(always)]
pub fn take(state: &Word, now: Units, cost: Units, capacity: Units) -> bool {
    match gcra::ask(state.load(), now, cost, capacity, capacity) {
        Answer::Admit(next) => {
            state.store(next);
            true
        }
        Answer::Refuse => false,
        // No debt of this budget: another one's before it was changed, or from before the clock was set back, as tests do.
        Answer::Cap(_) => {
            state.store(now.wrapping_add(cost));
            true
        }
    }
}
