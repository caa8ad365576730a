//! From the operator's numbers to a policy, and the bounds of what a limit can be.

use core::fmt;

use crate::{
    buckets::sliding_log,
    limits::{
        algorithm::Algorithm,
        policy::{Given, LIMIT, MAX_FRAME, MOST_COST, Meter, Policy, SECOND_OF_PACKETS, half},
    },
    meters::{
        gcra::{self, MAX_DEBT},
        window::{self, Window},
    },
};

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of a day.
pub const DAY: u64 = 86_400 * SECOND;

/// What a packet counts as in a burst of bytes: a full Ethernet frame.
pub const BURST_FRAME: u32 = 1_514;

/// An amount of packets or bytes per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Packets or bytes.
    pub amount: u64,
    /// Nanoseconds: a second, a minute, an hour, a day, or ten or more of them.
    pub period: u64,
}

/// A limit as an operator gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// From 1 per day to 100 million per second.
    pub packets: Option<Rate>,
    /// A second limit of packets, in place of one of bytes: a quota of an hour beside a cap of a minute.
    pub second_packets: Option<Rate>,
    /// From 1 per second to 50 billion (400 Gbit) per second.
    pub bytes: Option<Rate>,
    /// How many packets may come at once, for buckets; for a limit of bytes each stands for [`BURST_FRAME`]. What the rate allows in its
    /// own period unless given. A second limit of packets has that in any case.
    pub burst: Option<u64>,
    /// By what it counts.
    pub algorithm: Algorithm,
}

/// Why a limit cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitError {
    /// Neither packets nor bytes are given.
    Empty,
    /// A rate of packets outside its bounds.
    Packets,
    /// A rate of bytes outside its bounds.
    Bytes,
    /// A burst of nothing.
    NoBurst,
    /// The burst takes longer than 52 days to drain; the largest that does not.
    Burst(u64),
    /// A burst of an algorithm that has none.
    BurstOfWindow(Algorithm),
    /// Limits of packets twice and of bytes.
    Three,
    /// A second limit of packets without a first.
    SecondAlone,
    /// More than a window can count; the most that it can.
    Window(Algorithm, u64),
    /// A log of bytes.
    LogOfBytes,
    /// So few hundredths of a limit that nothing is left, or the rate is out of bounds.
    Hundredths(u8),
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Empty => {
                f.write_str("a limit needs --packets RATE, --bytes RATE, --parent SCOPE=RATE or several")
            }
            LimitError::Packets => f.write_str("a packet rate must be between 1/d and 100M/s"),
            LimitError::Bytes => f.write_str("a byte rate must be between 1B/s and 50GB/s (400Gbit/s)"),
            LimitError::NoBurst => f.write_str("a burst must be at least 1 packet"),
            LimitError::Burst(most) => {
                write!(f, "a burst must drain within 52 days: at this rate, at most {most} packets")
            }
            LimitError::BurstOfWindow(algorithm) => {
                let name = algorithm.name();
                write!(
                    f,
                    "{name} has no burst: what its rate says may come at any time of a window. Leave --burst away"
                )
            }
            LimitError::Three => {
                f.write_str("a source can have two limits: two of packets, or one of packets and one of bytes")
            }
            LimitError::SecondAlone => f.write_str("a second limit of packets needs a first"),
            LimitError::Window(algorithm, most) => {
                let name = algorithm.name();
                write!(
                    f,
                    "{name} counts up to {most} in a window of this length: give a smaller rate, or another --algorithm"
                )
            }
            LimitError::LogOfBytes => f.write_str("sliding-log counts packets, not bytes: choose another --algorithm"),
            LimitError::Hundredths(percent) => {
                write!(f, "{percent} % of this limit is less than one packet or a rate below 1/d: give a larger share")
            }
        }
    }
}

impl core::error::Error for LimitError {}

impl Limit {
    /// The policy that holds this limit.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says which number is out of bounds.
    pub fn policy(&self) -> Result<Policy, LimitError> {
        self.check()?;
        let kind = Policy { kind: LIMIT, algorithm: self.algorithm as u8, ..Policy::default() };
        let flags = if self.second_packets.is_some() { SECOND_OF_PACKETS } else { 0 };
        let limits = if self.algorithm.is_bucket() { self.by_buckets()? } else { self.by_windows()? };
        let second = self.second_packets.or(self.bytes);
        let given = Given {
            packets: self.packets.map_or(0, |rate| rate.amount),
            packets_period: self.packets.map_or(0, |rate| rate.period),
            second: second.map_or(0, |rate| rate.amount),
            second_period: second.map_or(0, |rate| rate.period),
            burst: limits.given.burst,
        };
        Ok(Policy { flags, given, packets: limits.packets, second: limits.second, windows: limits.windows, ..kind })
    }

    /// What a policy was made of.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        let given = &policy.given;
        let rate = |amount, period| (amount != 0).then_some(Rate { amount, period });
        let second = rate(given.second, given.second_period);
        let is_of_packets = policy.flags & SECOND_OF_PACKETS != 0;
        Self {
            packets: rate(given.packets, given.packets_period),
            second_packets: second.filter(|_| is_of_packets),
            bytes: second.filter(|_| !is_of_packets),
            burst: (given.burst != 0).then_some(given.burst),
            algorithm: Algorithm::of(policy.algorithm).unwrap_or_default(),
        }
    }

    /// So many hundredths of this limit, of its burst as well.
    ///
    /// # Errors
    ///
    /// [`LimitError::Hundredths`] where that is too little.
    pub fn hundredths(&self, percent: u8) -> Result<Policy, LimitError> {
        let error = LimitError::Hundredths(percent);
        let part = |rate: Rate| {
            let amount = rate.amount.checked_mul(u64::from(percent))?;
            Some(match self.algorithm.is_bucket() {
                true => Rate { amount, period: rate.period.checked_mul(100)? },
                // Windows keep their length.
                false => Rate { amount: amount / 100, ..rate },
            })
        };
        let part = |rate: Option<Rate>| rate.map_or(Ok(None), |rate| part(rate).map(Some).ok_or(error));
        let burst = self.burst.map(|burst| burst.saturating_mul(u64::from(percent)).div_ceil(100));
        let (packets, second_packets, bytes) = (part(self.packets)?, part(self.second_packets)?, part(self.bytes)?);
        let policy = Self { packets, second_packets, bytes, burst, ..*self }.policy();
        policy.map_err(|_| error)
    }

    fn check(&self) -> Result<(), LimitError> {
        if self.packets.is_none() && self.bytes.is_none() {
            return Err(if self.second_packets.is_some() { LimitError::SecondAlone } else { LimitError::Empty });
        }
        if self.second_packets.is_some() && self.bytes.is_some() {
            return Err(LimitError::Three);
        }
        let is_out = |rate: &Rate| !rate.within((1, DAY), (100_000_000, SECOND));
        if self.packets.iter().chain(&self.second_packets).any(is_out) {
            return Err(LimitError::Packets);
        }
        if self.bytes.is_some_and(|rate| !rate.within((1, SECOND), (50_000_000_000, SECOND))) {
            return Err(LimitError::Bytes);
        }
        Ok(())
    }

    fn by_buckets(&self) -> Result<Policy, LimitError> {
        let packets_at_once = self.packets.map(|rate| rate.in_own_unit(1));
        let bytes_at_once = self.bytes.map(|rate| rate.in_own_unit(BURST_FRAME));
        let burst = self.burst.or(packets_at_once).or(bytes_at_once);
        let burst = burst.filter(|burst| *burst > 0).ok_or(LimitError::NoBurst)?;
        let packets = self.packets.map_or(Ok(Meter::default()), |rate| rate.meter(burst, 1, MOST_COST, 1))?;
        let second = match (self.second_packets, self.bytes) {
            (Some(rate), _) => rate.meter(rate.in_own_unit(1), 1, MOST_COST, 1)?,
            (None, Some(rate)) => rate.meter(burst, BURST_FRAME, MAX_FRAME, MAX_FRAME)?,
            (None, None) => Meter::default(),
        };
        Ok(Policy { packets, second, given: Given { burst, ..Given::default() }, ..Policy::default() })
    }

    fn by_windows(&self) -> Result<Policy, LimitError> {
        if self.burst.is_some() {
            return Err(LimitError::BurstOfWindow(self.algorithm));
        }
        if self.algorithm == Algorithm::SlidingLog && self.bytes.is_some() {
            return Err(LimitError::LogOfBytes);
        }
        let window = |rate: Option<Rate>| rate.map_or(Ok(Window::default()), |rate| rate.window(self.algorithm));
        let windows = [window(self.packets)?, window(self.second_packets.or(self.bytes))?];
        Ok(Policy { windows, ..Policy::default() })
    }
}

impl Rate {
    /// Whether this rate lies between two others, given as (amount, period).
    fn within(&self, least: (u64, u64), most: (u64, u64)) -> bool {
        let not_above =
            |a: (u64, u64), b: (u64, u64)| u128::from(a.0) * u128::from(b.1) <= u128::from(b.0) * u128::from(a.1);
        let this = (self.amount, self.period);
        self.amount > 0 && self.period > 0 && not_above(least, this) && not_above(this, most)
    }

    /// How many packets of `size` the rate allows in the longest unit of time that its period is made of, rounded up.
    fn in_own_unit(&self, size: u32) -> u64 {
        let unit =
            [DAY, 3_600 * SECOND, 60 * SECOND, SECOND].into_iter().find(|unit| self.period.is_multiple_of(*unit));
        let amount = u128::from(self.amount) * u128::from(unit.unwrap_or(SECOND));
        let packets = amount.div_ceil(u128::from(self.period.max(1)) * u128::from(size));
        u64::try_from(packets).unwrap_or(u64::MAX)
    }

    /// The meter of this rate for a burst of `burst` packets of `size`, when one packet asks for at most `largest`, and mostly for no more
    /// than `usual`, which is what cells leave room for.
    fn meter(&self, burst: u64, size: u32, largest: u32, usual: u32) -> Result<Meter, LimitError> {
        let period = u128::from(self.period) << (gcra::FRACTION_BITS - 1);
        let amount = u128::from(self.amount);
        // As many binary digits of fraction as the largest packet's cost leaves room for.
        let room = u128::from(u64::MAX >> 1) / u128::from(largest);
        let shift = (0..=33).rev().find(|shift| (period << shift) / amount < room).unwrap_or(0);
        let cost = u64::try_from(((period << shift) + amount / 2) / amount).map_err(|_| LimitError::Burst(0))?;
        let meter = Meter { cost, capacity: 0, ceiling: 0, front: 0, shift, reserved: 0 };
        let most = MAX_DEBT / meter.cost_of(size).max(1);
        if burst > most {
            return Err(LimitError::Burst(most));
        }
        let one = meter.cost_of(size);
        let capacity = burst * one;
        let front = capacity.saturating_sub(meter.cost_of(usual).max(capacity - half(capacity)));
        Ok(Meter { capacity, ceiling: capacity.max(meter.cost_of(usual)), front, ..meter })
    }

    /// The window of this rate: its period.
    fn window(&self, algorithm: Algorithm) -> Result<Window, LimitError> {
        let most = match algorithm {
            Algorithm::SlidingLog => sliding_log::PLACES,
            Algorithm::SlidingWindow => {
                let most = window::SLIDING_PRODUCT / u128::from(self.period);
                u64::try_from(most).unwrap_or(u64::MAX).min(window::SLIDING_MOST)
            }
            _ => window::FIXED_MOST,
        };
        if self.amount > most {
            return Err(LimitError::Window(algorithm, most));
        }
        if self.amount == 0 {
            return Err(LimitError::Packets);
        }
        Ok(Window::new(self.amount, self.period, 0))
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            Limit { packets: per_second(1), burst: Some(0), ..Limit::default() }.policy(),
            Err(LimitError::NoBurst)
        );
        let daily = Limit { packets: Some(Rate { amount: 1, period: DAY }), burst: Some(1_000), ..Limit::default() };
        assert_eq!(daily.policy(), Err(LimitError::Burst(52)));
    }

    #[test]
    fn a_burst_is_by_default_what_the_rate_allows_in_its_own_unit() {
        let burst = |amount, period, bytes| {
            let rate = Some(Rate { amount, period });
            let limit = if bytes {
                Limit { bytes: rate, ..Limit::default() }
            } else {
                Limit { packets: rate, ..Limit::default() }
            };
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
}
