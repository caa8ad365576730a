//! The cost of a packet in limits of packets. A cost belongs to the packet, not to the rule, and cells leave room for
//! the largest one.

use ratelimit_common::identity::class::{self, Classes};

use crate::{bpf::settings, maps::classes};

/// Returns the cost of a packet of these classes: that of the narrowest service with a cost.
#[inline(always)]
#[must_use]
pub fn of(classes: Classes) -> u32 {
    let mut cost = 0;
    if settings::has_costs() {
        class::each(classes, settings::has_services(), |class| {
            if cost == 0 {
                cost = classes::cost(class);
            }
        });
    }
    cost.max(1)
}
