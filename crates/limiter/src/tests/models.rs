//! Each algorithm beside a naive model, which keeps all requests that were admitted.

use proptest::prelude::*;

use super::*;

const PERIOD: u64 = MINUTE;
const PARTS: u64 = 60;

/// All requests that were admitted: time and cost.
struct Model {
    algorithm: Algorithm,
    limit: u64,
    admitted: Vec<(u64, u64)>,
}

impl Model {
    /// Returns the sum of all costs in nanoseconds of a period, each weighted by a function of its time.
    fn sum(&self, weight: impl Fn(u64) -> u64) -> u128 {
        self.admitted.iter().map(|(time, cost)| u128::from(*cost) * u128::from(weight(*time))).sum()
    }

    /// Returns what is counted at this time, times the length of a period.
    fn counted(&self, now: u64) -> u128 {
        match self.algorithm {
            Algorithm::FixedWindow => self.sum(|time| if time / PERIOD == now / PERIOD { PERIOD } else { 0 }),
            Algorithm::SlidingWindow => self.weighted(now, 1),
            Algorithm::SlidingCounters => self.weighted(now, PARTS),
            Algorithm::SlidingLog => self.sum(|time| if now - time < PERIOD { PERIOD } else { 0 }),
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Queue => {
                let (mut debt, mut last) = (0u128, 0);
                for (time, cost) in self.admitted.iter().copied().chain([(now, 0)]) {
                    debt = debt.saturating_sub(u128::from(time - last) * u128::from(self.limit));
                    debt += u128::from(cost) * u128::from(PERIOD);
                    last = time;
                }
                debt
            }
        }
    }

    /// Counts with a period of so many parts, of which the oldest is weighted.
    fn weighted(&self, now: u64, parts: u64) -> u128 {
        let length = PERIOD / parts;
        let newest = now / length;
        self.sum(|time| match newest - time / length {
            age if age < parts => PERIOD,
            // In units of the period.
            age if age == parts => (length - now % length) * parts,
            _ => 0,
        })
    }

    fn admits(&self, now: u64, cost: u64) -> bool {
        let counted = self.counted(now);
        counted + u128::from(cost) * u128::from(PERIOD) <= u128::from(self.limit) * u128::from(PERIOD)
    }
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::ALL.to_vec())
}

proptest! {
    /// Amounts divide the period, so that no algorithm rounds.
    #[test]
    fn every_decision_is_that_of_the_model(
        algorithm in algorithm(),
        limit_of in prop::sample::select(vec![1u64, 2, 3, 10, 60, 100]),
        requests in prop::collection::vec((0u64..20_000, 0u32..5), 1..200),
    ) {
        let limiter = by_user([limit(limit_of, PERIOD, algorithm)]);
        let mut model = Model { algorithm, limit: limit_of, admitted: Vec::new() };
        let mut now = 1_000 * PERIOD;
        for (gap, cost) in requests {
            // Whole milliseconds, so that edges of periods are met.
            now += gap * 1_000_000;
            let decision = limiter.check(&[("user", "17")], cost, now);
            let asked = u64::from(cost.max(1));
            let usage = decision.limit.unwrap();
            prop_assert_eq!(decision.is_allowed, model.admits(now, asked), "{:?} at {}", model.admitted, now);
            if decision.is_allowed {
                model.admitted.push((now, u64::from(cost)));
            } else if asked > limit_of {
                prop_assert_eq!(usage.wait, None);
            } else {
                // Not earlier than it says, except by what rounding takes.
                let wait = usage.wait.unwrap().as_nanos() as u64;
                prop_assert!(model.admits(now + wait, asked), "{wait}");
                prop_assert!(wait < 2 || !model.admits(now + wait - 2, asked), "{wait}");
            }
            let counted = model.counted(now).div_ceil(u128::from(PERIOD));
            let left = u128::from(limit_of).saturating_sub(counted);
            prop_assert_eq!(u128::from(usage.remaining), left, "{:?} at {}", model.admitted, now);
            prop_assert_eq!(model.counted(now + usage.reset.as_nanos() as u64), 0);
        }
    }

    /// A log with more requests than entries never admits more than its limit in any period.
    #[test]
    fn a_long_log_keeps_its_bound(gaps in prop::collection::vec(0u64..100, 1..50)) {
        const LIMIT: u64 = 5_000;
        let limiter = by_user([limit(LIMIT, PERIOD, Algorithm::SlidingLog)]);
        let (mut now, mut admitted) = (1_000 * PERIOD, Vec::new());
        for gap in gaps {
            now += gap * 50_000_000;
            for step in 0..200u64 {
                now += step * 1_000;
                if allows(&limiter, now) {
                    admitted.push(now);
                }
            }
        }
        // One more than the limit take a period or longer.
        for more in admitted.windows(LIMIT as usize + 1) {
            prop_assert!(more[LIMIT as usize] - more[0] >= PERIOD);
        }
    }
}
