//! Charges the two limits of a policy, for any algorithm.

use ratelimit_common::{limits::policy::Policy, reason::Reason};

/// Charges the limits that are on, the limit of packets first. If the second one refuses after all, the first charge is
/// given back. Returns the charged states.
///
/// # Errors
///
/// Returns the reason of a refusal.
#[inline(always)]
pub fn charge(
    policy: &Policy,
    [has_packets, has_second]: [bool; 2],
    charge_packets: impl FnOnce() -> Option<u64>,
    charge_second: impl FnOnce() -> Option<u64>,
    refund_packets: impl FnOnce(u64),
) -> Result<[u64; 2], Reason> {
    let mut charged = [0; 2];
    if has_packets {
        charged[0] = charge_packets().ok_or(Reason::OverPackets)?;
    }
    if has_second {
        let Some(state) = charge_second() else {
            if has_packets {
                refund_packets(charged[0]);
            }
            return Err(policy.second_reason());
        };
        charged[1] = state;
    }
    Ok(charged)
}
