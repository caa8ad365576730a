//! Charges the two limits of a policy, for any algorithm.

use ratelimit_common::{limits::policy::Policy, reason::Reason};

use crate::maps::exchange::Charge;

/// Charges the limits that are on, the limit of packets first. If the second one refuses after all, the first charge is
/// given back.
#[inline(always)]
#[must_use]
pub fn charge(
    policy: &Policy,
    [has_packets, has_second]: [bool; 2],
    charge_packets: impl FnOnce() -> Charge,
    charge_second: impl FnOnce() -> Charge,
    refund_packets: impl FnOnce(),
) -> Reason {
    if has_packets {
        match charge_packets() {
            Charge::Paid => {}
            Charge::Refused => return Reason::OverPackets,
            Charge::Contended => return Reason::Contended,
        }
    }
    if has_second {
        let outcome = charge_second();
        if outcome != Charge::Paid && has_packets {
            refund_packets();
        }
        match outcome {
            Charge::Paid => {}
            Charge::Refused => return policy.second_reason(),
            Charge::Contended => return Reason::Contended,
        }
    }
    Reason::WithinLimit
}
