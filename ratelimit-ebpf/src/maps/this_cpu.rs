//! Counters and budgets of this CPU, and what its packet was charged. Nothing interrupts a program on received packets to
//! run it again, so plain words suffice.

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map};
use ratelimit_common::{
    maps::{
        cpu::{self, Cpu},
        levels::LANES,
    },
    meters::{gcra::Units, meter::Meter},
};

use crate::bpf::{atomic::Word, clock::Clock};

/// See [`ratelimit_common::maps::names::CPUS`].
#[btf_map]
pub static CPUS: PerCpuArray<ThisCpu, 1> = PerCpuArray::new();

/// [`Cpu`] as its CPU writes it.
#[repr(C)]
#[expect(missing_docs, reason = "they are those of `Cpu`")]
pub struct ThisCpu {
    pub admission: Word,
    pub sampling: Word,
    pub unknown_left: Word,
    pub unknown_until: Word,
    pub unknown_passed: Word,
    pub admitted: Word,
    pub uncounted: Word,
    pub failed: Word,
    pub bans_failed: Word,
    pub lost_races: Word,
    pub displaced_refusals: Word,
    pub refused_skipped: Word,
    pub refused_counted: Word,
    pub replies_sent: Word,
    pub replies_unsent: Word,
    pub own_budgets: [Word; 2],
    pub own_looked_up: Word,
    pub own_not_looked_up: Word,
    pub proof_budget: Word,
    pub proofs_looked_up: Word,
    pub proofs_not_looked_up: Word,
    pub proven_by_connection: Word,
    pub proven_by_cookie: Word,
    pub cookies_unsent: Word,
    pub lanes: [Word; LANES as usize],
    pub payments: [[Payment; 2]; 3],
}
const _: () = assert!(size_of::<ThisCpu>() == size_of::<Cpu>());

/// Returns the entry of this CPU.
#[inline(always)]
#[must_use]
pub fn get() -> Option<&'static ThisCpu> {
    #[cfg(test)]
    return Some(crate::bpf::schedule::own::get());
    #[cfg(not(test))]
    CPUS.get(0)
}

/// Place of the payments of the source's own limit.
pub const OWN: u32 = 0;
/// Place of the payments of the narrower parent.
pub const NARROWER: u32 = 1;
/// Place of the payments of the wider parent, or of the allowance of a soft limit.
pub const LAST: u32 = 2;

/// Returns the payments of both limits in a place.
#[inline(always)]
#[must_use]
pub fn payments(place: u32) -> Option<&'static [Payment; 2]> {
    get().and_then(|cpu| cpu.payments.get(place as usize))
}

/// Adds one to a counter of this CPU.
#[inline(always)]
pub fn count(counter: impl Fn(&ThisCpu) -> &Word) {
    if let Some(cpu) = get() {
        counter(cpu).increment();
    }
}

/// Counts that another CPU changed a word first. Not inlined, so that the verifier continues behind it in one state.
#[inline(never)]
pub fn lost_race() {
    count(|cpu| &cpu.lost_races);
}

/// [`cpu::Payment`]. It is kept with the CPU, because the stack has no room for it.
#[repr(C)]
#[expect(missing_docs, reason = "they are those of `cpu::Payment`")]
pub struct Payment {
    pub now: Word,
    pub is_coarse: Word,
    pub largest_debt: Word,
    pub cost: Word,
    pub level: Word,
    pub charged_level: Word,
    pub own: Word,
    pub charged_own: Word,
}
const _: () = assert!(size_of::<Payment>() == size_of::<cpu::Payment>());

impl Payment {
    /// Makes this the payment for a packet of this amount, of which nothing is charged yet.
    #[inline(always)]
    pub fn begin(&self, meter: &Meter, amount: u32, clock: &Clock<'_>, is_coarse: bool) {
        self.now.store(clock.now());
        self.is_coarse.store(u64::from(is_coarse));
        self.largest_debt.store(clock.largest_debt());
        self.cost.store(meter.cost_of(amount));
        self.clear();
    }

    /// Records that nothing is charged.
    #[inline(always)]
    pub fn clear(&self) {
        self.record_level(0, 0);
        self.record_own(0, 0);
    }

    /// Records the charge of the level, and the charged level.
    #[inline(always)]
    pub fn record_level(&self, cost: Units, charged: u64) {
        self.level.store(cost);
        self.charged_level.store(charged);
    }

    /// Records the charge of the bucket, and its charged state.
    #[inline(always)]
    pub fn record_own(&self, cost: Units, charged: u64) {
        self.own.store(cost);
        self.charged_own.store(charged);
    }
}
