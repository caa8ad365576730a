//! What an interface can take altogether. Every packet that passes is counted, whatever its reason.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::meters::{gcra, interface_capacity};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings},
    maps::all::{CONTROL, INTERFACE_CAPACITIES, INTERFACE_CAPACITY_LEFT},
    meters::charge::{FEW_TRIES, exchange},
    packet::context::Visit,
};

/// A [`interface_capacity::Capacity`] as the CPUs share it. Only its state changes while it is in use.
#[repr(transparent)]
pub struct Shared(interface_capacity::Capacity);

impl Shared {
    #[inline(always)]
    fn state(&self) -> &Word {
        Word::of(&self.0.state)
    }
}

/// The capacity of an interface, if it has one.
#[inline(always)]
fn of(interface: u32) -> Option<&'static Shared> {
    INTERFACE_CAPACITIES
        .get(interface_capacity::place(interface))
        .filter(|shared| interface != 0 && shared.0.interface == interface)
}

/// Counts a packet that passes.
#[inline(always)]
pub fn count(ctx: &XdpContext) {
    if settings::is_on(&settings::ELASTIC_ON) {
        charge_capacity(ctx.ingress_ifindex() as u32);
    }
}

/// Each CPU counts a batch at a time.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_capacity(interface: u32) -> u32 {
    if !settings::is_on(&settings::ELASTIC_ON) {
        return 0;
    }
    let (Some(shared), Some(control)) = (of(interface), CONTROL.get(0)) else { return 0 };
    let Some(left) = INTERFACE_CAPACITY_LEFT.get(interface_capacity::place(interface)) else { return 0 };
    // Less, if there was more before the capacity was changed.
    let packets = left.load().min(u64::from(shared.0.batch));
    if packets != 0 {
        left.store(packets - 1);
        return 0;
    }
    let now = Clock::read(control).units();
    // Lost to other CPUs, a batch is not counted; they count theirs.
    let _ = exchange::<FEW_TRIES>(shared.state(), |seen| Some(shared.0.charged(seen, now)));
    left.store(u64::from(shared.0.batch.saturating_sub(1)));
    0
}

/// Whether the interface that a packet came in by has room for one that is over its limit. Reads what is shared, and writes nothing. The
/// coarse clock lags, so that there seems less room than there is, by a tick that the burst has in addition.
#[inline(always)]
#[must_use]
pub fn has_room(visit: &Visit) -> bool {
    of(visit.interface).is_some_and(|shared| shared.0.has_room(shared.state().load(), gcra::units(visit.tick)))
}
