//! A sample of all counters, and the difference of two samples.

use std::{
    ops::Sub,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::phase::{CLIENT, SOURCES};

/// Packets of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Packets {
    /// Counted by the sender.
    pub(crate) offered: u64,
    /// Counted by the product.
    pub(crate) passed: u64,
    pub(crate) dropped: u64,
}

/// All counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Time before the counters were read.
    pub(crate) begin: Instant,
    /// Time after the counters were read.
    pub(crate) end: Instant,
    pub(crate) packets: [Packets; SOURCES.len()],
    /// Flood packets that the victim's network stack counted.
    pub(crate) handled: u64,
}

/// The difference of two samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    /// Minimum and maximum duration.
    pub(crate) least: Duration,
    pub(crate) most: Duration,
    pub(crate) packets: [Packets; SOURCES.len()],
    pub(crate) handled: u64,
}

impl Sample {
    /// Returns the difference to an earlier sample.
    pub(crate) fn since(&self, earlier: &Self) -> Interval {
        Interval {
            least: self.begin - earlier.end,
            most: self.end - earlier.begin,
            packets: std::array::from_fn(|source| self.packets[source] - earlier.packets[source]),
            handled: self.handled - earlier.handled,
        }
    }
}

impl Interval {
    /// Returns the mean of the minimum and maximum duration.
    pub(crate) fn time(&self) -> Duration {
        (self.least + self.most) / 2
    }

    /// Returns the sum of all floods.
    pub(crate) fn floods(&self) -> Packets {
        floods(&self.packets)
    }
}

/// Returns the sum of all floods.
pub(crate) fn floods(packets: &[Packets; SOURCES.len()]) -> Packets {
    let floods = packets.iter().enumerate().filter(|(source, _)| *source != CLIENT);
    floods.fold(Packets::default(), |sum, (_, packets)| Packets {
        offered: sum.offered + packets.offered,
        passed: sum.passed + packets.passed,
        dropped: sum.dropped + packets.dropped,
    })
}

impl Sub for Packets {
    type Output = Self;

    /// Subtracts an earlier list. A list made under traffic may miss packets of an earlier one.
    fn sub(self, earlier: Self) -> Self {
        Self {
            offered: self.offered.saturating_sub(earlier.offered),
            passed: self.passed.saturating_sub(earlier.passed),
            dropped: self.dropped.saturating_sub(earlier.dropped),
        }
    }
}

/// Returns passed and dropped packets of the source `name` in the output of `ratelimit sources --json`. A source
/// without a row has sent nothing.
pub(crate) fn packets_of(listed: &Value, name: &str) -> Result<(u64, u64)> {
    let rows = listed.as_array().context("`ratelimit sources --json` prints no list")?;
    let Some(row) = rows.iter().find(|row| row["source"] == name) else { return Ok((0, 0)) };
    let count = |kind: &str| {
        row[kind]["packets"].as_u64().with_context(|| format!("`ratelimit sources --json` counts no packets {kind}"))
    };
    Ok((count("passed")?, count("dropped")?))
}

/// Returns packets of all reasons in the output of `ratelimit status --json`, without link discovery.
pub(crate) fn counted(status: &Value) -> Result<u64> {
    let count = |traffic: &Value| traffic["packets"].as_u64().context("`ratelimit status --json` counts no packets");
    let discovery = count(&status["reasons"]["link-discovery"])?;
    Ok(count(&status["passed"])? + count(&status["dropped"])? - discovery)
}

/// Returns the counter `name` of `protocol` in /proc/net/snmp.
pub(crate) fn snmp(text: &str, protocol: &str, name: &str) -> Result<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let value = lines.next().zip(lines.next()).and_then(|(names, values)| {
        let mut columns = names.split(' ').zip(values.split(' '));
        columns.find(|(column, _)| *column == name)?.1.parse().ok()
    });
    value.with_context(|| format!("/proc/net/snmp has no {protocol} {name}"))
}

/// Returns the counter `name` in /proc/net/snmp6.
pub(crate) fn snmp6(text: &str, name: &str) -> Result<u64> {
    let mut counters = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let value = counters.find(|(counter, _)| *counter == name).and_then(|(_, value)| value.trim().parse().ok());
    value.with_context(|| format!("/proc/net/snmp6 has no {name}"))
}
