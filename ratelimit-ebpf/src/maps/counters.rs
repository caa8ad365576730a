//! Counters: by reason, for all interfaces together or for each one, and in a bucket.

use aya_ebpf::{
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use ratelimit_common::{
    buckets::seen::{self, SAMPLED},
    limits::policy::SHADOW,
    maps::interface_counters::{self, Ledger, OTHERS, PLACES, TRIES},
    reason::{Count, REASONS},
};

use crate::bpf::{atomic::Word, settings, verifier::given};

/// See [`ratelimit_common::maps::names::COUNTERS`].
#[btf_map]
pub static COUNTERS: PerCpuArray<Counter, { 2 * REASONS }> = PerCpuArray::new();

/// See [`ratelimit_common::maps::names::LEDGER`].
#[btf_map]
pub static LEDGER: Array<Ledger, 1> = Array::new();

/// See [`ratelimit_common::maps::names::INTERFACE_COUNTERS`].
#[btf_map]
pub static INTERFACE_COUNTERS: PerCpuArray<Counters, { PLACES + 1 }> = PerCpuArray::new();

/// A [`Count`] that only its CPU writes. Nothing interrupts a program on received packets to run it again.
#[repr(C)]
pub struct Counter {
    packets: Word,
    bytes: Word,
}
const _: () = assert!(size_of::<Counter>() == size_of::<Count>());

/// The [`interface_counters::Counts`] of an interface on one CPU.
#[repr(C)]
pub struct Counters {
    /// Counters of the packets' reasons.
    pub done: [Counter; REASONS],
    /// Counters of packets that passed in shadow.
    pub shadow: [Counter; REASONS],
}
const _: () = assert!(size_of::<Counters>() == size_of::<interface_counters::Counts>());

impl Counter {
    /// Counts one packet of `length` bytes.
    #[inline(always)]
    pub fn add(&self, length: u32) {
        self.packets.increment();
        self.bytes.store(self.bytes.load().wrapping_add(u64::from(length)));
    }
}

/// Returns the counter with this index: a reason, or [`REASONS`] and a reason for packets that passed in shadow.
#[inline(always)]
#[must_use]
pub fn of_reason(index: u32) -> Option<&'static Counter> {
    COUNTERS.get(index)
}

/// Returns the counters of an interface.
#[inline(always)]
#[must_use]
pub fn of_interface(interface: u32) -> Option<&'static Counters> {
    INTERFACE_COUNTERS.get(place_of(interface))
}

/// Returns the place of an interface, or that of all interfaces without one.
#[inline(always)]
#[must_use]
pub fn place_of(interface: u32) -> u32 {
    LEDGER.get(0).map_or(OTHERS, |ledger| place(ledger, interface))
}

/// Returns the place of an interface. Written without a loop, see [`crate::bpf::verifier`].
#[inline(always)]
fn place(ledger: &Ledger, interface: u32) -> u32 {
    const { assert!(TRIES == 4) };
    if ledger.has(interface, 0) {
        Ledger::place(interface, 0)
    } else if ledger.has(interface, 1) {
        Ledger::place(interface, 1)
    } else if ledger.has(interface, 2) {
        Ledger::place(interface, 2)
    } else if ledger.has(interface, 3) {
        Ledger::place(interface, 3)
    } else {
        OTHERS
    }
}

/// Counters in a bucket: packets and bytes that passed, that were dropped, and that have passed in shadow. Also when the source was first and
/// last [seen].
#[repr(C)]
pub struct Counts {
    passed: Word,
    passed_bytes: Word,
    dropped: Word,
    dropped_bytes: Word,
    would_drop: Word,
    would_drop_bytes: Word,
}

/// Returns whether packets that this action refuses pass.
#[inline(always)]
#[must_use]
pub fn is_shadow(action: u8) -> bool {
    settings::is_on(&settings::ACTIONS_ON) && action == SHADOW || settings::is_on(&settings::SHADOW_ON)
}

impl Counts {
    /// Returns the words of a source that was first seen now, and has counted nothing.
    #[inline(always)]
    #[must_use]
    pub const fn none(now: u64) -> [u64; 6] {
        [seen::last(now), 0, seen::first(now), 0, 0, 0]
    }

    /// Notes that the source was first seen now, unless an earlier time is known.
    #[inline(always)]
    pub fn begin(&self, now: u64) {
        let word = self.dropped.load();
        if !seen::has_first(word) {
            // If this fails, another CPU has noted it, or its packets make the time unknown.
            let _ = self.dropped.compare_exchange(word, word | seen::first(now));
        }
    }

    /// Returns the packets and bytes that are counted as passed.
    #[inline(always)]
    #[must_use]
    pub fn passed(&self) -> [u64; 2] {
        [seen::count(self.passed.load()), self.passed_bytes.load()]
    }

    /// Returns the packets that this action has refused: those that were dropped, or those that have passed in shadow.
    #[inline(always)]
    #[must_use]
    pub fn refused(&self, action: u8) -> u64 {
        if is_shadow(action) { self.would_drop.load() } else { seen::count(self.dropped.load()) }
    }

    /// Counts packets that passed. The last of them arrived at `now`.
    #[inline(always)]
    pub fn count_passed(&self, now: u64, packets: u64, bytes: u64) {
        self.see(now);
        self.passed.add(packets);
        self.passed_bytes.add(bytes);
    }

    /// Counts refused packets with their [action](ratelimit_common::limits::policy::Policy::over_limit). The last of
    /// them arrived at `now`.
    #[inline(always)]
    pub fn count_refused(&self, now: u64, action: u8, packets: u64, bytes: u64) {
        self.see(now);
        let (count, count_bytes) = match is_shadow(action) {
            true => (&self.would_drop, &self.would_drop_bytes),
            false => (&self.dropped, &self.dropped_bytes),
        };
        count.add(packets);
        count_bytes.add(bytes);
    }

    /// Notes that refused packets are counted by samples.
    #[inline(always)]
    pub fn note_samples(&self) {
        let word = self.dropped.load();
        if word & SAMPLED == 0 {
            // If this fails, another CPU counts a packet at the same time. The next sample notes it.
            let _ = self.dropped.compare_exchange(word, word | SAMPLED);
        }
    }

    /// Notes when the source was last seen, once in a while.
    #[inline(always)]
    fn see(&self, now: u64) {
        if !seen::is_same_time(self.passed.load(), seen::last(now)) {
            note_last(&raw const self.passed, now);
        }
    }
}

/// A call, because LLVM otherwise shares an address that it leaves undefined without a bucket.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn note_last(passed: *const Word, now: u64) -> u32 {
    let Some(passed) = given(passed) else { return 0 };
    let word = passed.load();
    // If this fails, another CPU counts a packet at the same time, and notes it.
    let _ = passed.compare_exchange(word, seen::last(now) | seen::count(word));
    0
}
