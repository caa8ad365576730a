//! Converts the operator's numbers into a policy, and checks the bounds of a limit.

use crate::{
    limits::{
        algorithm::Algorithm,
        limit_error::LimitError,
        policy::{Given, LIMIT, MOST_COST, Policy, SECOND_OF_PACKETS},
    },
    meters::{
        gcra::{self, MAX_DEBT},
        meter::{MAX_FRAME, Meter, half},
        sliding_log,
        window::{self, Window},
    },
};

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of a day.
pub const DAY: u64 = 86_400 * SECOND;

/// Bytes of a packet in a burst of bytes: a full Ethernet frame.
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
    /// A second limit of packets, used instead of a limit of bytes. Example: a quota per hour beside a cap per minute.
    pub second_packets: Option<Rate>,
    /// From 1 per second to 50 billion (400 Gbit) per second.
    pub bytes: Option<Rate>,
    /// Packets of the burst, for buckets. In a limit of bytes, each stands for [`BURST_FRAME`]. By default, the burst
    /// is the amount that the rate allows in its own unit of time. A second limit of packets always has that burst.
    pub burst: Option<u64>,
    /// Algorithm.
    pub algorithm: Algorithm,
}

impl Limit {
    /// Returns the policy of this limit.
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

    /// Returns the limit that a policy was made of.
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

    /// Returns the policy of so many hundredths of this limit and its burst.
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
    /// Returns whether this rate lies between two others, given as (amount, period).
    fn within(&self, least: (u64, u64), most: (u64, u64)) -> bool {
        let not_above =
            |a: (u64, u64), b: (u64, u64)| u128::from(a.0) * u128::from(b.1) <= u128::from(b.0) * u128::from(a.1);
        let this = (self.amount, self.period);
        self.amount > 0 && self.period > 0 && not_above(least, this) && not_above(this, most)
    }

    /// Returns the number of packets of `size` that the rate allows in the longest unit of time that divides its
    /// period, rounded up.
    fn in_own_unit(&self, size: u32) -> u64 {
        let unit =
            [DAY, 3_600 * SECOND, 60 * SECOND, SECOND].into_iter().find(|unit| self.period.is_multiple_of(*unit));
        let amount = u128::from(self.amount) * u128::from(unit.unwrap_or(SECOND));
        let packets = amount.div_ceil(u128::from(self.period.max(1)) * u128::from(size));
        u64::try_from(packets).unwrap_or(u64::MAX)
    }

    /// Returns the meter of this rate for a burst of `burst` packets of `size`. One packet asks for at most `largest`.
    /// Cells leave room for packets of `usual`.
    fn meter(&self, burst: u64, size: u32, largest: u32, usual: u32) -> Result<Meter, LimitError> {
        let period = u128::from(self.period) << (gcra::FRACTION_BITS - 1);
        let amount = u128::from(self.amount);
        // As many binary digits of fraction as the largest packet's cost leaves room for.
        let room = u128::from(u64::MAX >> 1) / u128::from(largest);
        let shift = (0..=33).rev().find(|shift| (period << shift) / amount < room).unwrap_or(0);
        let cost = u64::try_from(((period << shift) + amount / 2) / amount).map_err(|_| LimitError::Burst(0))?;
        let meter = Meter { cost, burst: 0, ceiling: 0, cell_share: 0, shift, reserved: 0 };
        let most = MAX_DEBT / meter.cost_of(size).max(1);
        if burst > most {
            return Err(LimitError::Burst(most));
        }
        let one = meter.cost_of(size);
        let debt = burst * one;
        let cell_share = debt.saturating_sub(meter.cost_of(usual).max(debt - half(debt)));
        Ok(Meter { burst: debt, ceiling: debt.max(meter.cost_of(usual)), cell_share, ..meter })
    }

    /// Returns the window of this rate, which has its period.
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
mod tests;
