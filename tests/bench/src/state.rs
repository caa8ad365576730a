//! The state of a limit: never reached, just reached, or far exceeded.

use std::fmt;

use anyhow::Result;
use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::Policy,
};
use ratelimit_tests::per_second;
use serde::Serialize;

/// The state of the traffic's sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// A limit that is never reached.
    Passing,
    /// A limit of half of the offered rate, so that half of the packets pass.
    Held,
    /// One packet per minute, which has been sent.
    Over,
}

impl State {
    /// In the order of measurement: the search for the limit of held sources begins with the passing rate.
    pub(crate) const ALL: [Self; 3] = [Self::Passing, Self::Held, Self::Over];

    /// Returns the share of dropped packets that a valid measurement of this state has.
    pub(crate) fn dropped(self) -> std::ops::RangeInclusive<f64> {
        match self {
            Self::Passing => 0.0..=0.001,
            Self::Held => 0.35..=0.65,
            Self::Over => 0.95..=1.0,
        }
    }
}

/// Returns a limit that no source reaches.
pub(crate) fn never_reached() -> Policy {
    per_second(100_000_000, 100_000_000)
}

/// Returns a limit that every source reaches with its first packet.
pub(crate) fn reached_at_once() -> Result<Policy> {
    let rate = Rate { amount: 1, period: 60 * SECOND };
    Ok(Limit { packets: Some(rate), burst: Some(1), ..Limit::default() }.policy()?)
}

/// Returns a limit of half of the rate of each source, when all of them send `packets_per_second` together.
pub(crate) fn half_of(packets_per_second: f64, sources: u32) -> Result<Policy> {
    let each = packets_per_second / f64::from(sources) / 2.0;
    // Per thousand seconds, so that rates of a few packets are exact too.
    let rate = Rate { amount: ((each * 1_000.0) as u64).max(1), period: 1_000 * SECOND };
    let burst = Some((each as u64).max(1));
    Ok(Limit { packets: Some(rate), burst, ..Limit::default() }.policy()?)
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passing => "passing",
            Self::Held => "held at the limit",
            Self::Over => "far over the limit",
        })
    }
}
