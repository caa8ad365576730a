//! The options of `attach` about the program itself: what it tells apart, what it remembers, and how much.

use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use ratelimit_common::{limits::limit::SECOND, maps::names::CELLS_MAX};

use crate::{
    dataplane::program::loader::{Settings, Wanted},
    units::{NOTHING, PacketRate, UnitError},
};

/// What is left out is as it was, or the default of a new instance.
#[derive(Debug, clap::Args)]
pub(crate) struct SettingsArguments {
    /// Bits of an IPv6 address that make a source [default: 64]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=128))]
    ipv6_prefix: Option<u32>,
    /// Buckets that there can be at a time, at 144 bytes each: for sources that come near a limit or have a rule, and for samples of the
    /// others; the longest silent one gives way [default: 131072]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    max_sources: Option<u32>,
    /// Whether cells that many sources share stand in front of the buckets; off gives each source a bucket of its own, counted exactly, at the
    /// mercy of floods from many sources [default: on]
    #[arg(long, value_enum)]
    front: Option<Switch>,
    /// Cells in front of the buckets, at 64 bytes each: a power of two up to 1048576 [default: 131072]
    #[arg(long, value_name = "N", conflicts_with = "front", value_parser = parse_cells)]
    cells: Option<u32>,
    /// Whether one of 256 packets is recorded of sources that exceed nothing, so that `sources` lists the busy ones [default: on]
    #[arg(long, value_enum)]
    sample: Option<Switch>,
    /// New buckets per second and CPU, from 1/s on; beyond it, who may be over a limit and has none is dropped [default: 10k/s]
    #[arg(long, value_name = "RATE")]
    admissions: Option<PerSecond>,
    /// What all sources together may send that were not seen in three different seconds of late, from 1/s on, or off: holds floods from
    /// forged addresses [default: off]
    #[arg(long, alias = "strangers", value_name = "RATE|off")]
    unknown: Option<RateOrOff>,
    /// Answers of rejected packets per second, all sources together, or off [default: 100/s]
    #[arg(long, value_name = "RATE|off")]
    replies: Option<RateOrOff>,
    /// Observe only: every packet passes, and is counted as what would have become of it [default: off]
    #[arg(long, value_enum, value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    shadow: Option<Switch>,
    /// Logs that there can be at a time for limits by sliding-log, at 672 bytes each; the longest silent one gives way
    /// [default: 16384]
    #[arg(long, alias = "max-logs", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1 << 24))]
    max_sliding_logs: Option<u32>,
    /// What becomes of malformed and truncated IP packets: dropped, or passed as far as their source may [default: drop]
    #[arg(long, value_enum)]
    malformed: Option<Malformed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Malformed {
    Drop,
    Pass,
}

/// A rate of at least one per second.
#[derive(Debug, Clone, Copy)]
struct PerSecond(u64);

/// A rate, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateOrOff(pub(super) u64);

const PER_SECOND_EXPECTED: UnitError = UnitError::new("expected a rate between 1/s and 100M/s");

impl FromStr for PerSecond {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let PacketRate(rate) = match text.parse() {
            Err(NOTHING) => return Err(PER_SECOND_EXPECTED),
            parsed => parsed?,
        };
        match u128::from(rate.amount) * u128::from(SECOND) / u128::from(rate.period) {
            per_second @ 1..=100_000_000 => Ok(Self(per_second as u64)),
            _ => Err(PER_SECOND_EXPECTED),
        }
    }
}

impl FromStr for RateOrOff {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.parse() {
            _ if text == "off" => Ok(Self(0)),
            Ok(PerSecond(rate)) => Ok(Self(rate)),
            Err(PER_SECOND_EXPECTED) => Err(UnitError::new("expected a rate between 1/s and 100M/s, or off")),
            Err(error) => Err(error),
        }
    }
}

fn parse_cells(text: &str) -> Result<u32, String> {
    let cells = text.parse().ok().filter(|cells: &u32| cells.is_power_of_two() && *cells <= CELLS_MAX);
    cells.ok_or_else(|| format!("expected a power of two up to {CELLS_MAX}"))
}

impl SettingsArguments {
    /// Whether nothing is said of unknown sources, which cells would know.
    pub(crate) fn could_limit_unknown(&self) -> bool {
        self.unknown.is_none() && self.front != Some(Switch::Off)
    }

    /// What was asked for in so many words, a line each.
    pub(crate) fn said(&self) -> Vec<String> {
        let unknown = self.unknown.map(|RateOrOff(rate)| match rate {
            0 => "unknown sources: not limited".to_owned(),
            rate => format!("unknown sources: {rate}/s together"),
        });
        let admissions = self.admissions.map(|PerSecond(rate)| format!("new buckets: {rate}/s on each CPU"));
        let sample = self.sample.map(|switch| match switch {
            Switch::On => "samples: on".to_owned(),
            Switch::Off => "samples: off".to_owned(),
        });
        let malformed = self.malformed.map(|malformed| match malformed {
            Malformed::Drop => "malformed packets: dropped".to_owned(),
            Malformed::Pass => "malformed packets: pass as far as their source may".to_owned(),
        });
        let replies = self.replies.map(|RateOrOff(rate)| match rate {
            0 => "answers to rejected packets: none".to_owned(),
            rate => format!("answers to rejected packets: {rate}/s together"),
        });
        let shadow = self.shadow.map(|switch| match switch {
            Switch::On => "shadow: every packet passes, and is counted as what would have become of it".to_owned(),
            Switch::Off => "shadow: off, limits and denies are enforced".to_owned(),
        });
        let logs = self.max_sliding_logs.map(|most| format!("logs: {most} at a time, if a limit keeps any"));
        let sources = self.max_sources.map(|most| format!("sources: {most} at a time"));
        let cells = self.cells.map(|cells| format!("cells: {cells}"));
        let said = [shadow, sources, cells, logs, unknown, admissions, sample, malformed, replies];
        said.into_iter().flatten().collect()
    }

    /// What this asks for.
    pub(crate) fn wanted(&self) -> Result<Wanted> {
        let cells = match self.front {
            Some(Switch::Off) => Some(0),
            Some(Switch::On) => Some(Settings::default().cells),
            None => self.cells,
        };
        let unknown = self.unknown.map(|rate| rate.0);
        let without_cells = cells == Some(0) && unknown.is_some_and(|rate| rate != 0);
        ensure!(!without_cells, "--unknown needs the cells that --front off leaves away: give one of the two");
        Ok(Wanted {
            ipv6_prefix: self.ipv6_prefix,
            buckets: self.max_sources,
            pass_malformed: self.malformed.map(|malformed| malformed == Malformed::Pass),
            cells,
            sample: self.sample.map(|switch| switch == Switch::On),
            admissions: self.admissions.map(|rate| rate.0),
            unknown,
            replies: self.replies.map(|rate| rate.0),
            sliding_logs: self.max_sliding_logs,
            shadow: self.shadow.map(|switch| switch == Switch::On),
            log_level: 0,
        })
    }
}
