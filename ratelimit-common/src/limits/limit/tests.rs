use super::*;
use proptest::prelude::*;

fn per_second(amount: u64) -> Option<Rate> {
    Some(Rate { amount, period: SECOND })
}

#[test]
fn bounds_are_inclusive() {
    let slowest = Limit { packets: Some(Rate { amount: 1, period: DAY }), ..Limit::default() };
    assert!(slowest.policy().is_ok());
    assert!(
        Limit { packets: per_second(100_000_000), bytes: per_second(1), burst: Some(1), ..Limit::default() }
            .policy()
            .is_ok()
    );
    assert!(Limit { bytes: per_second(50_000_000_000), ..Limit::default() }.policy().is_ok());
    let below = Limit { packets: Some(Rate { amount: 1, period: DAY + 1 }), ..Limit::default() };
    assert_eq!(below.policy(), Err(LimitError::Packets));
    assert_eq!(Limit { packets: per_second(100_000_001), ..Limit::default() }.policy(), Err(LimitError::Packets));
    assert_eq!(Limit { bytes: per_second(0), ..Limit::default() }.policy(), Err(LimitError::Bytes));
    assert_eq!(Limit::default().policy(), Err(LimitError::Empty));
    assert_eq!(Limit { packets: per_second(1), burst: Some(0), ..Limit::default() }.policy(), Err(LimitError::NoBurst));
    let daily = Limit { packets: Some(Rate { amount: 1, period: DAY }), burst: Some(1_000), ..Limit::default() };
    assert_eq!(daily.policy(), Err(LimitError::Burst(52)));
}

#[test]
fn a_burst_is_by_default_what_the_rate_allows_in_its_own_unit() {
    let burst = |amount, period, bytes| {
        let rate = Some(Rate { amount, period });
        let limit =
            if bytes { Limit { bytes: rate, ..Limit::default() } } else { Limit { packets: rate, ..Limit::default() } };
        limit.policy().map(|policy| policy.given.burst)
    };
    assert_eq!(burst(1_500, SECOND, false), Ok(1_500));
    assert_eq!(burst(3, 60 * SECOND, false), Ok(3));
    // 1.5/d, 1.001/s and 0.5/h.
    assert_eq!(burst(3, 2 * DAY, false), Ok(2));
    assert_eq!(burst(1_001, 1_000 * SECOND, false), Ok(2));
    assert_eq!(burst(1, 2 * 3_600 * SECOND, false), Ok(1));
    assert_eq!(burst(10_000_000, SECOND, true), Ok(6_606));
    assert_eq!(burst(1, SECOND, true), Ok(1));
}

proptest! {
    /// G3: what a million packets or bytes cost is within 0.1 % of what the rate says, at every rate.
    #[test]
    fn costs_are_within_a_thousandth(
        amount in 1u64..50_000_000_000, period in prop::sample::select(&[SECOND, 60 * SECOND, 3600 * SECOND, DAY][..]), frame in 60u32..MAX_FRAME,
    ) {
        let rate = Rate { amount, period };
        for (limit, count) in [
            (Limit { packets: Some(rate), burst: Some(1), ..Limit::default() }, 1),
            (Limit { bytes: Some(rate), burst: Some(1), ..Limit::default() }, frame),
        ] {
            let Ok(policy) = limit.policy() else { continue };
            let meter = if count == 1 { policy.packets } else { policy.second };
            let exact = f64::from(count) * (period as f64) * 1024.0 / (amount as f64);
            let error = (meter.cost_of(count) as f64 - exact).abs() / exact;
            prop_assert!(error <= 0.001, "{limit:?}: {} instead of {exact}", meter.cost_of(count));
        }
    }

    /// A burst of packets is exactly as many packets.
    #[test]
    fn a_burst_is_exact(amount in 1u64..100_000_000, burst in 1u64..2_000) {
        let policy = Limit { packets: per_second(amount), burst: Some(burst), ..Limit::default() }.policy();
        let Ok(Policy { packets, .. }) = policy else { return Ok(()) };
        let (mut state, mut admitted) = (0, 0);
        while let gcra::Answer::Admit(next) = packets.ask(state, 0, packets.cost_of(1)) {
            state = next;
            admitted += 1;
        }
        prop_assert_eq!(admitted, burst);
    }
}
