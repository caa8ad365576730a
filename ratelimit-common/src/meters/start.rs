//! The part of its burst with which a source begins on one host of a fleet, if the hosts divide it.
//!
//! The source's bucket begins with the rest of the burst spent. Time pays for that, as for each debt. So an idle source
//! has the whole burst again, and a source that has been seen has what its bucket says.

use crate::meters::{gcra::Units, meter::Meter};

/// Returns the debt with which a new bucket begins. `cell_share` is what the cell in front of it admits, and `least` what
/// the source gets at least: one packet.
#[inline(always)]
#[must_use]
pub const fn debt(meter: &Meter, cell_share: Units, least: Units, hosts: u64) -> Units {
    let Some(part) = meter.burst.checked_div(hosts) else { return 0 };
    let part = if part > least { part } else { least };
    let begun = if part > cell_share { part } else { cell_share };
    // Even, as all times.
    meter.burst.saturating_sub(begun) & !1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::meters::meter::{MOST_HOSTS, half};

    fn meter(cost: u64, packets: u64) -> Meter {
        let burst = 2 * cost * packets;
        let cell_share = if packets < 2 { 0 } else { half(burst) };
        Meter { cost, burst, ceiling: burst, cell_share, shift: 0, reserved: 0 }.for_start()
    }

    proptest! {
        #[test]
        fn hosts_together_admit_one_burst(cost in 1u64..1 << 40, packets in 1u64..100_000, hosts in 1u64..=MOST_HOSTS) {
            let meter = meter(cost, packets);
            let one = meter.cost_of(1);
            let begun = meter.burst - debt(&meter, meter.cell_share, one, hosts);
            prop_assert!((one..=meter.burst).contains(&begun));
            // Up to one packet for each host.
            prop_assert!(hosts * begun <= meter.burst + hosts * (one + 2));
            prop_assert!(hosts * (begun + 2) >= meter.burst);
        }
    }

    #[test]
    fn without_other_hosts_the_whole_burst_is_there() {
        let meter = meter(1_000, 100);
        for hosts in [0, 1] {
            assert_eq!(debt(&meter, meter.cell_share, meter.cost_of(1), hosts), 0);
        }
    }

    #[test]
    fn many_hosts_leave_a_packet() {
        let meter = meter(1_000, 4);
        assert_eq!(debt(&meter, 0, meter.cost_of(1), 1_000), meter.burst - 2_000);
    }
}
