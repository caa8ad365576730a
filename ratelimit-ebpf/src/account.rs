//! Counts what became of every packet, by reason and CPU.

use ratelimit_common::reason::{Count, REASONS};

use crate::{atomic::Word, maps::COUNTERS, verdict::Verdict};

/// A [`Count`] that only its CPU writes: nothing interrupts a program on received packets to run it again.
#[repr(C)]
pub struct Counter {
    packets: Word,
    bytes: Word,
}
const _: () = assert!(size_of::<Counter>() == size_of::<Count>());

/// Counts one packet of `length` bytes. What passes in shadow has counters of its own.
#[inline(always)]
pub fn count(verdict: Verdict, length: u32) {
    let index = verdict.reason as u32 + if verdict.is_shadowed() { REASONS as u32 } else { 0 };
    // An index below the map's size is always there; a packet must not fail for want of a counter.
    let Some(counter) = COUNTERS.get(index) else { return };
    counter.packets.increment();
    counter.bytes.store(counter.bytes.load().wrapping_add(u64::from(length)));
}
