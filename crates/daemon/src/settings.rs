//! The settings of an instance, as options of `attach` and as keys of the configuration file. Limits belong to `limit`.

use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use ratelimit_base::{
    tables::switch::Switch,
    text::units::{PacketRate, UnitError, ZERO_RATE},
};
use ratelimit_common::{limits::limit::SECOND, maps::names::CELLS_MAX};
use ratelimit_dataplane::program::loader::{LEARNED, RequestedSettings, Settings};

/// The settings. One that is not given stays, or is the default of a new instance.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings of the instance")]
pub struct SettingsArguments {
    /// Bits of an IPv6 address that identify a source [default: 64]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=128))]
    ipv6_prefix: Option<u32>,
    /// Number of buckets, at 160 bytes each. A bucket holds the state of a source that comes near its limit, has a
    /// rule, or was sampled. When all are in use, a new bucket replaces the one that was unused for longest [default:
    /// by the memory of the machine, 131072 to 1048576]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    max_sources: Option<u32>,
    /// Whether packets first check a cell, which several sources share. off gives each source its own bucket with exact
    /// counts, but a flood from many sources can then evict buckets [default: on]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    front: Option<Switch>,
    /// Number of cells, at 64 bytes each: a power of two up to 1048576 [default: 131072]
    #[arg(long, value_name = "N", conflicts_with = "front", value_parser = parse_cells)]
    cells: Option<u32>,
    /// Whether one in 256 packets within a limit is recorded, so that `sources` also lists busy sources [default: on]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    sample: Option<Switch>,
    /// New buckets per second and CPU, from 1/s. When this budget is spent, packets that need a new bucket are dropped
    /// [default: 10k/s]
    #[arg(long, value_name = "RATE")]
    admissions: Option<PerSecond>,
    /// Rate for all unknown sources in total, from 1/s, or off. auto learns it from minutes without a flood. A source
    /// becomes known when its packets pass in three different seconds. This limits floods from forged addresses
    /// [default: off]
    #[arg(long, alias = "strangers", value_name = "RATE|auto|off")]
    unknown: Option<UnknownRate>,
    /// How unknown sources over their rate can prove their address. tcp answers their SYNs with SYN cookies, and whoever
    /// acknowledges one is known. Needs net.ipv4.tcp_syncookies = 2 [default: off]
    #[arg(long, value_enum, value_name = "tcp|off", hide_possible_values = true)]
    prove: Option<Prove>,
    /// SYN cookies per second for all sources in total, from 1/s [default: 2M/s]
    #[arg(long, value_name = "RATE")]
    proofs: Option<PerSecond>,
    /// Packets per second of each source that pass above a limit or ban because they answer a connection that this host
    /// has opened (TCP, and connected UDP sockets), or off [default: 1M/s]
    #[arg(long, value_name = "RATE|off")]
    own: Option<RateOrOff>,
    /// Whether nothing denies this host's own network: its addresses, gateways, name servers, the networks of its
    /// interfaces, loopback, and 0.0.0.0. Denies, lists and bans are not applied to these, and limits are [default: on]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    spare: Option<Switch>,
    /// Answers to rejected packets (ICMP errors and TCP resets) per second for all sources in total, or off [default:
    /// 100/s]
    #[arg(long, value_name = "RATE|off")]
    replies: Option<RateOrOff>,
    /// Shadow mode: every packet passes, and drops are only counted [default: off]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    shadow: Option<Switch>,
    /// Number of sliding logs for limits with --algorithm sliding-log, at 680 bytes each. When all are in use, a new
    /// log replaces the one that was unused for longest [default: 16384]
    #[arg(long, alias = "max-logs", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1 << 24))]
    max_sliding_logs: Option<u32>,
    /// What happens to malformed and truncated IP packets: drop, or pass if the rules for their source allow [default:
    /// drop]
    #[arg(long, value_enum, value_name = "drop|pass", hide_possible_values = true)]
    malformed: Option<Malformed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Prove {
    Tcp,
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

/// A rate, or `off`, which is 0.
#[derive(Debug, Clone, Copy)]
pub struct RateOrOff(pub u64);

/// A rate, `off`, which is 0, or `auto`, which is [`LEARNED`].
#[derive(Debug, Clone, Copy)]
struct UnknownRate(u64);

const PER_SECOND_EXPECTED: UnitError = UnitError::new("expected a rate between 1/s and 100M/s");
const RATE_OR_OFF_EXPECTED: UnitError = UnitError::new("expected a rate between 1/s and 100M/s, or off");

impl FromStr for PerSecond {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let PacketRate(rate) = match text.parse() {
            Err(ZERO_RATE) => return Err(PER_SECOND_EXPECTED),
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
            Err(PER_SECOND_EXPECTED) => Err(RATE_OR_OFF_EXPECTED),
            Err(error) => Err(error),
        }
    }
}

impl FromStr for UnknownRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.parse() {
            _ if text == "auto" => Ok(Self(LEARNED)),
            Ok(RateOrOff(rate)) => Ok(Self(rate)),
            // A word, and not a rate that is wrong.
            Err(error) if error != RATE_OR_OFF_EXPECTED && text.starts_with(|c: char| c.is_ascii_digit()) => Err(error),
            Err(_) => Err(UnitError::new("expected a rate between 1/s and 100M/s, auto, or off")),
        }
    }
}

fn parse_cells(text: &str) -> Result<u32, String> {
    let cells = text.parse().ok().filter(|cells: &u32| cells.is_power_of_two() && *cells <= CELLS_MAX);
    cells.ok_or_else(|| format!("expected a power of two up to {CELLS_MAX}"))
}

impl SettingsArguments {
    /// Returns whether unknown sources could be limited, and the option is not given.
    pub fn could_limit_unknown(&self) -> bool {
        self.unknown.is_none() && self.front != Some(Switch::Off)
    }

    /// Returns whether shadow is requested.
    pub fn requests_shadow(&self) -> bool {
        self.shadow == Some(Switch::On)
    }

    /// Returns whether the end of shadow is requested.
    pub fn ends_shadow(&self) -> bool {
        self.shadow == Some(Switch::Off)
    }

    /// Returns a line for each setting that was given. Shadow is that of these interfaces alone, or of all.
    pub fn lines(&self, alone: &[String]) -> Vec<String> {
        let unknown = self.unknown.map(|UnknownRate(rate)| match rate {
            0 => "unknown sources: not limited".to_owned(),
            LEARNED => "unknown sources: a learned rate in total, 100k/s during the first day".to_owned(),
            rate => format!("unknown sources: {rate}/s in total"),
        });
        let own = self.own.map(|RateOrOff(rate)| match rate {
            0 => "own connections: limited like all others".to_owned(),
            rate => format!("own connections: spared up to {rate}/s from each source"),
        });
        let spare = self.spare.map(|switch| match switch {
            Switch::On => "this host's own network: never denied".to_owned(),
            Switch::Off => "this host's own network: denied like all others".to_owned(),
        });
        let prove = self.prove.map(|prove| match prove {
            Prove::Tcp => "proof of addresses: SYN cookies over the rate of unknown sources".to_owned(),
            Prove::Off => "proof of addresses: established connections alone".to_owned(),
        });
        let proofs = self.proofs.map(|PerSecond(rate)| format!("SYN cookies: {rate}/s in total"));
        let admissions = self.admissions.map(|PerSecond(rate)| format!("new buckets: {rate}/s on each CPU"));
        let sample = self.sample.map(|switch| match switch {
            Switch::On => "samples: on".to_owned(),
            Switch::Off => "samples: off".to_owned(),
        });
        let malformed = self.malformed.map(|malformed| match malformed {
            Malformed::Drop => "malformed packets: drop".to_owned(),
            Malformed::Pass => "malformed packets: pass if the rules for their source allow".to_owned(),
        });
        let replies = self.replies.map(|RateOrOff(rate)| match rate {
            0 => "answers to rejected packets: none".to_owned(),
            rate => format!("answers to rejected packets: {rate}/s in total"),
        });
        let mode = if alone.is_empty() { "shadow mode".to_owned() } else { format!("shadow on {}", alone.join(", ")) };
        let shadow = self.shadow.map(|switch| match switch {
            Switch::On => format!("{mode}: every packet passes, and drops are only counted"),
            Switch::Off => format!("{mode}: off, limits and denies are enforced"),
        });
        let logs = self.max_sliding_logs.map(|most| format!("sliding logs: {most}, if a limit uses them"));
        let sources = self.max_sources.map(|most| format!("buckets: {most}"));
        let cells = self.cells.map(|cells| format!("cells: {cells}"));
        let lines =
            [shadow, sources, cells, logs, unknown, prove, proofs, own, spare, admissions, sample, malformed, replies];
        lines.into_iter().flatten().collect()
    }

    /// Returns a line with the number of buckets of a new instance. None if the operator gave it.
    pub fn chosen(&self, Settings { buckets, .. }: &Settings) -> Option<String> {
        self.max_sources.is_none().then(|| format!("buckets: {buckets}, for the memory of this machine"))
    }

    /// Returns the settings for the program.
    pub fn requested(&self) -> Result<RequestedSettings> {
        let cells = match self.front {
            Some(Switch::Off) => Some(0),
            Some(Switch::On) => Some(Settings::default().cells),
            None => self.cells,
        };
        let unknown = self.unknown.map(|rate| rate.0);
        let without_cells = cells == Some(0) && unknown.is_some_and(|rate| rate != 0);
        ensure!(!without_cells, "--unknown needs cells, which --front off removes: omit one of the two options");
        Ok(RequestedSettings {
            ipv6_prefix: self.ipv6_prefix,
            buckets: self.max_sources,
            pass_malformed: self.malformed.map(|malformed| malformed == Malformed::Pass),
            cells,
            sample: self.sample.map(|switch| switch == Switch::On),
            admissions: self.admissions.map(|rate| rate.0),
            unknown,
            prove_tcp: self.prove.map(|prove| prove == Prove::Tcp),
            proofs: self.proofs.map(|rate| rate.0),
            own: self.own.map(|rate| rate.0),
            spare: self.spare.map(|switch| switch == Switch::On),
            replies: self.replies.map(|rate| rate.0),
            sliding_logs: self.max_sliding_logs,
            shadow: self.shadow.map(|switch| switch == Switch::On),
            leases: None,
            divide: None,
            log_level: 0,
        })
    }
}
