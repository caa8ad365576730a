//! What a packet counts as in limits of packets.

use ratelimit_common::identity::class::Classes;

use crate::{bpf::settings, maps::all::CLASSES, rules::lookup};

/// Whether packets of some services count as more than one.
#[inline(always)]
#[must_use]
pub fn are_on() -> bool {
    settings::is_on(&settings::COSTS_ON)
}

/// The cost of a packet of these classes: that of the narrowest service which has one.
#[inline(always)]
#[must_use]
pub fn of(classes: Classes) -> u32 {
    let mut cost = 0;
    if are_on() {
        lookup::each(classes, |class| {
            if cost == 0 {
                cost = CLASSES.get(u32::from(class)).map_or(0, |entry| u32::from(entry.cost));
            }
        });
    }
    cost.max(1)
}
