//! Limits of bytes whose burst holds no whole frame. Such a bucket admits a frame only when it is empty, so a source
//! loses the time until its next frame arrives.

use ratelimit_common::limits::{
    limit::{BURST_FRAME, Limit},
    policy::Policy,
};
use ratelimit_dataplane::sys::largest_frame::LargestFrame;

/// The largest frame that Linux joins, with an Ethernet header.
const JOINED: u32 = 65_549;

/// Returns whether the largest frames exceed the burst of this limit, so that it matters which ones arrive.
#[must_use]
pub fn may_be(policy: &Policy) -> bool {
    is_below(policy, JOINED)
}

/// Returns that the burst is too short for frames of an interface, and the smallest that is not.
#[must_use]
pub fn on(policy: &Policy, largest: &LargestFrame) -> Option<String> {
    let LargestFrame { bytes, interface, is_joined } = largest;
    let joined = if *is_joined { ", where packets are joined" } else { "" };
    is_below(policy, *bytes).then(|| {
        format!(
            "{}, and frames on {interface} have up to {bytes} bytes{joined}: a source of such frames gets less than its rate; {}",
            held(policy),
            smallest(*bytes)
        )
    })
}

/// Returns the same about a limit of a file, with interfaces where packets may be joined.
#[must_use]
pub fn where_joined(policy: &Policy) -> Option<String> {
    may_be(policy).then(|| {
        format!(
            "{}, and frames of joined packets have up to {JOINED} bytes: a source of such frames gets less than its rate; {}",
            held(policy),
            smallest(JOINED)
        )
    })
}

fn is_below(policy: &Policy, frame: u32) -> bool {
    let burst = policy.given.burst;
    burst != 0 && Limit::of(policy).bytes.is_some() && burst.saturating_mul(BURST_FRAME.into()) < frame.into()
}

fn held(policy: &Policy) -> String {
    let burst = policy.given.burst;
    format!("a burst of {burst} is {} bytes", burst.saturating_mul(BURST_FRAME.into()))
}

/// With a burst of two frames, one may be left in the bucket when the next one arrives. So no time is lost, whenever that
/// is.
fn smallest(frame: u32) -> String {
    format!("the smallest burst that reaches it is {}", smallest_burst(frame))
}

fn smallest_burst(frame: u32) -> u64 {
    (2 * u64::from(frame)).div_ceil(BURST_FRAME.into())
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::limit::{Rate, SECOND};

    use super::*;

    fn policy(bytes: u64, burst: Option<u64>) -> Policy {
        let bytes = Some(Rate { amount: bytes, period: SECOND });
        Limit { bytes, burst, ..Limit::default() }.policy().unwrap()
    }

    /// Returns the share of its rate that a source gets whose frames arrive at this distance, over a thousand seconds.
    fn share(policy: &Policy, frame: u32, distance: u64) -> f64 {
        let meter = policy.second;
        let (cost, mut debt, mut admitted, mut frames) = (meter.cost_of(frame), 0_u64, 0_u64, 0_u64);
        let tick = meter.cost_of(64_000) / 1_000;
        while frames * distance < 1_000_000 {
            // A bucket of 64 kB/s drains 64 bytes in a millisecond.
            debt = debt.saturating_sub(tick * if frames == 0 { 0 } else { distance });
            if debt == 0 || debt + cost <= meter.burst {
                (debt, admitted) = (debt + cost, admitted + u64::from(frame));
            }
            frames += 1;
        }
        admitted as f64 / (64_000.0 * 1_000.0)
    }

    #[test]
    fn a_burst_of_two_frames_is_the_smallest_that_loses_nothing() {
        let default = policy(64_000, None);
        assert!(share(&default, JOINED, 100) < 0.95, "{}", share(&default, JOINED, 100));
        let smallest = smallest_burst(JOINED);
        assert_eq!(smallest, 87);
        for distance in [1, 10, 100, 500, 1_000] {
            let share = share(&policy(64_000, Some(smallest)), JOINED, distance);
            assert!(share > 0.998, "{distance} ms: {share}");
        }
        // Just below, a source whose frames come as fast as its rate drains them can lose a whole frame.
        assert!(share(&policy(64_000, Some(44)), JOINED, 900) < 0.6);
    }

    #[test]
    fn only_bursts_below_a_frame_are_named() {
        let largest = |bytes, is_joined| LargestFrame { bytes, interface: "eth0".to_owned(), is_joined };
        assert_eq!(on(&policy(1_000, None), &largest(1_514, false)), None);
        assert_eq!(on(&policy(70_000, None), &largest(JOINED, true)), None);
        let joined = "a burst of 43 is 65102 bytes, and frames on eth0 have up to 65549 bytes, where packets are joined: a source of such frames gets less than its rate; the smallest burst that reaches it is 87";
        assert_eq!(on(&policy(64_000, None), &largest(JOINED, true)).as_deref(), Some(joined));
        let jumbo = "a burst of 1 is 1514 bytes, and frames on eth0 have up to 9014 bytes: a source of such frames gets less than its rate; the smallest burst that reaches it is 12";
        assert_eq!(on(&policy(1_000, None), &largest(9_014, false)).as_deref(), Some(jumbo));
        let packets = Limit { packets: Some(Rate { amount: 1, period: SECOND }), ..Limit::default() }.policy().unwrap();
        assert_eq!((on(&packets, &largest(JOINED, true)), where_joined(&packets)), (None, None));
        assert!(where_joined(&policy(64_000, None)).is_some() && where_joined(&policy(67_000, None)).is_none());
    }
}
