//! The capacity of an interface. Every packet that passes is counted, whatever its reason.
//!
//! Each CPU takes a millisecond's worth at a time, so only one packet of a batch writes to the shared word. The bucket
//! holds ten milliseconds' worth plus a tick. Beyond that there is no room.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::meters::gcra;

use crate::{
    bpf::{clock::Clock, settings},
    maps::{
        control,
        exchange::{FEW_TRIES, exchange},
        interface_capacities,
    },
    packet::context::Context,
};

/// Counts a packet that passes.
#[inline(always)]
pub fn count(ctx: &XdpContext) {
    if settings::is_on(&settings::ELASTIC_ON) {
        charge_capacity(ctx.ingress_ifindex() as u32);
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_capacity(interface: u32) -> u32 {
    if !settings::is_on(&settings::ELASTIC_ON) {
        return 0;
    }
    let (Some(capacity), Some(control)) = (interface_capacities::get(interface), control::get()) else { return 0 };
    let (Some(left), numbers) = (interface_capacities::left(interface), capacity.numbers()) else { return 0 };
    // The batch is smaller if the capacity was reduced meanwhile.
    let packets = left.load().min(u64::from(numbers.batch));
    if packets != 0 {
        left.store(packets - 1);
        return 0;
    }
    // The clock of `has_room`. The precise one can be far ahead of it while a hypervisor stops the CPU that keeps the
    // ticks.
    let now = Clock::coarse(control).units();
    // If other CPUs are first, this batch is not counted; theirs are.
    let _ = exchange::<FEW_TRIES>(capacity.state(), |seen| Some(numbers.charged(seen, now)));
    left.store(u64::from(numbers.batch.saturating_sub(1)));
    0
}

/// Returns whether the packet's interface has room for a packet over its limit. Writes nothing. The coarse clock lags
/// by up to a tick, for which the burst has room.
#[inline(always)]
#[must_use]
pub fn has_room(context: &Context) -> bool {
    let now = gcra::units(context.tick);
    interface_capacities::get(context.interface)
        .is_some_and(|capacity| capacity.numbers().has_room(capacity.state().load(), now))
}
