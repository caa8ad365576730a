//! What a packet meets: a limit that is far away, just reached, or left far behind.

use std::fmt;

use anyhow::Result;
use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::Policy,
};
use ratelimit_tests::per_second;
use serde::Serialize;

/// What the traffic's sources meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// A limit that is never reached.
    Passing,
    /// A limit a tenth below what is sent, so that some packets pass and some do not.
    Held,
    /// One packet an hour, which has been sent.
    Over,
}

impl State {
    /// In the order in which they are measured: what passes tells what a tenth less is.
    pub(crate) const ALL: [Self; 3] = [Self::Passing, Self::Held, Self::Over];

    /// The share of packets that must be dropped for a measurement to be one of this state.
    pub(crate) fn dropped(self) -> std::ops::RangeInclusive<f64> {
        match self {
            Self::Passing => 0.0..=0.001,
            Self::Held => 0.01..=0.3,
            Self::Over => 0.95..=1.0,
        }
    }
}

/// A limit that no source reaches.
pub(crate) fn never_reached() -> Policy {
    per_second(100_000_000, 100_000_000)
}

/// A limit that every source has reached with its first packet.
pub(crate) fn reached_at_once() -> Result<Policy> {
    let rate = Rate { amount: 1, period: 3_600 * SECOND };
    Ok(Limit { packets: Some(rate), burst: Some(1), ..Limit::default() }.policy()?)
}

/// The limit that `sources` sources exceed by a tenth when they send `packets_per_second` together.
pub(crate) fn slightly_below(packets_per_second: f64, sources: u32) -> Result<Policy> {
    let each = packets_per_second / f64::from(sources) / 1.1;
    // Per thousand seconds, so that rates of a few packets are met too.
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
