//! Counts every packet by its reason.
//!
//! With one interface attached, packets are counted in `COUNTERS`. With several, they are counted in
//! `INTERFACE_COUNTERS` by the interface's slot, and no longer in `COUNTERS`. So each packet is counted in one place.
//! An interface can use four slots, by its index. If others hold all four, it is counted with *all others*.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::reason::REASONS;

use crate::{bpf::settings, maps::telemetry::counters, packet::context::Verdict};

/// Counts one packet of `length` bytes. Packets that pass in shadow have counters of their own.
#[inline(always)]
pub fn count(ctx: &XdpContext, verdict: Verdict, length: u32) {
    let (reason, is_shadowed) = (verdict.reason as u32, verdict.is_shadowed());
    if settings::is_on(&settings::INTERFACES_ON) {
        count_by_interface(ctx.ingress_ifindex() as u32, reason, u32::from(is_shadowed), length);
        return;
    }
    let index = reason + if is_shadowed { REASONS as u32 } else { 0 };
    // An index below the map's size is always there. A packet must not fail without a counter.
    if let Some(counter) = counters::of_reason(index) {
        counter.add(length);
    }
}

/// Not inlined, so that LLVM does not use what the verifier cannot know: that there are few reasons.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_by_interface(interface: u32, reason: u32, is_shadowed: u32, length: u32) -> u32 {
    if !settings::is_on(&settings::INTERFACES_ON) {
        return 0;
    }
    let Some(counters) = counters::of_interface(interface) else { return 0 };
    let counters = if is_shadowed == 0 { &counters.done } else { &counters.shadow };
    if let Some(counter) = counters.get(reason as usize) {
        counter.add(length);
    }
    0
}
