//! Counts what became of every packet, by reason and CPU, and by interface where there are several.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::{
    maps::interface_counters::{Counts, Ledger, OTHERS, TRIES},
    reason::{Count, REASONS},
};

use crate::{
    bpf::{atomic::Word, settings},
    maps::all::{COUNTERS, INTERFACE_COUNTERS, LEDGER},
    packet::verdict::Verdict,
};

/// A [`Count`] that only its CPU writes: nothing interrupts a program on received packets to run it again.
#[repr(C)]
pub struct Counter {
    packets: Word,
    bytes: Word,
}
const _: () = assert!(size_of::<Counter>() == size_of::<Count>());

/// The [`Counts`] of an interface, as one CPU writes them.
#[repr(C)]
pub struct Counters {
    done: [Counter; REASONS],
    shadow: [Counter; REASONS],
}
const _: () = assert!(size_of::<Counters>() == size_of::<Counts>());

/// Counts one packet of `length` bytes. What passes in shadow has counters of its own.
#[inline(always)]
pub fn count(ctx: &XdpContext, verdict: Verdict, length: u32) {
    let (reason, is_shadowed) = (verdict.reason as u32, verdict.is_shadowed());
    if settings::is_on(&settings::INTERFACES_ON) {
        count_by_interface(ctx.ingress_ifindex() as u32, reason, u32::from(is_shadowed), length);
        return;
    }
    let index = reason + if is_shadowed { REASONS as u32 } else { 0 };
    // An index below the map's size is always there; a packet must not fail for want of a counter.
    if let Some(counter) = COUNTERS.get(index) {
        counter.add(length);
    }
}

impl Counter {
    #[inline(always)]
    fn add(&self, length: u32) {
        self.packets.increment();
        self.bytes.store(self.bytes.load().wrapping_add(u64::from(length)));
    }
}

/// A function of its own, so that LLVM does not know what the verifier cannot: that reasons are few.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_by_interface(interface: u32, reason: u32, is_shadowed: u32, length: u32) -> u32 {
    if !settings::is_on(&settings::INTERFACES_ON) {
        return 0;
    }
    let Some(counters) = LEDGER.get(0).and_then(|ledger| INTERFACE_COUNTERS.get(place(ledger, interface))) else {
        return 0;
    };
    let counters = if is_shadowed == 0 { &counters.done } else { &counters.shadow };
    if let Some(counter) = counters.get(reason as usize) {
        counter.add(length);
    }
    0
}

/// The place of an interface. Not a loop: see ARCHITECTURE.md on what the verifier asks for.
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
