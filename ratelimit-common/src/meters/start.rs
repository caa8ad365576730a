//! The part of its burst with which a source begins on one host of a fleet, if the hosts divide it.
//!
//! A source that spends its part gets a bucket, and owes the rest of the burst from then on. Time pays for that, as for
//! each debt. So an idle source has the whole burst again.

use crate::meters::{gcra::Units, meter::Meter};

/// The most hosts that divide a burst.
pub const MOST_HOSTS: u64 = 1_024;

/// Returns the part of the burst, which has room for a packet of the cost `largest`.
#[inline(always)]
#[must_use]
pub const fn part(meter: &Meter, largest: Units, hosts: u64) -> Units {
    let hosts = if hosts < MOST_HOSTS { hosts } else { MOST_HOSTS };
    let Some(part) = meter.burst.checked_div(hosts) else { return meter.burst };
    let part = if part > largest { part } else { largest };
    // Even, as all times.
    if part < meter.burst { part & !1 } else { meter.burst }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meter(cost: u64, packets: u64) -> Meter {
        let burst = 2 * cost * packets;
        Meter { cost, burst, ceiling: burst, cell_share: 0, shift: 0, reserved: 0 }
    }

    proptest! {
        #[test]
        fn parts_make_up_the_burst(cost in 1u64..1 << 40, packets in 1u64..100_000, hosts in 1u64..=MOST_HOSTS) {
            let meter = meter(cost, packets);
            let one = meter.cost_of(1);
            let part = part(&meter, one, hosts);
            prop_assert!((one..=meter.burst).contains(&part));
            prop_assert!(hosts * part <= meter.burst.max(hosts * one));
            prop_assert!(hosts * (part + 2) >= meter.burst);
        }
    }

    #[test]
    fn without_other_hosts_the_part_is_the_whole_burst() {
        let meter = meter(1_000, 100);
        for hosts in [0, 1] {
            assert_eq!(part(&meter, meter.cost_of(1), hosts), meter.burst);
        }
    }

    #[test]
    fn many_hosts_leave_room_for_the_largest_packet() {
        let meter = meter(1_000, 4_096);
        assert_eq!(part(&meter, meter.cost_of(20), u64::MAX), 40_000);
        assert_eq!(part(&meter, 0, u64::MAX), meter.burst / MOST_HOSTS);
    }
}
