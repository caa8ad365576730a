//! Limits as text: options of commands, keys of the configuration file, and the words for them in output. How limits
//! work belongs to `ratelimit-common`.

pub mod excess;
pub mod merge;
mod or_off;
mod parent;
pub mod short_burst;
pub mod within;
pub mod write;

use anyhow::{Result, ensure};
use ratelimit_base::text::units::{ByteRate, PacketRate};
use ratelimit_common::limits::{algorithm::Algorithm, limit::Limit, limit_error::LimitError, policy::Policy};
use ratelimit_dataplane::rules::{spec::RuleSpec, target::Sources};

use self::{excess::Excess, or_off::OrOff, parent::ParentArgument};

/// The options of a limit.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limit")]
pub struct Rates {
    /// Packets that each source may send, from 1/d to 100M/s. Two rates are two limits that both apply, such as
    /// 10/m,500/h. off: no limit of packets
    #[arg(long, value_name = "RATE[,RATE]|off", value_delimiter = ',')]
    packets: Vec<OrOff<PacketRate>>,
    /// Bytes that each source may send, from 1B/s to 50GB/s. Whole frames count. off: no limit of bytes
    #[arg(long, value_name = "RATE|off")]
    bytes: Option<OrOff<ByteRate>>,
    /// Packets that a source may send at once after a pause (for leaky-bucket: the length of the queue). In a limit of
    /// bytes, each counts as 1,514 bytes. With two rates, it applies to the first [default: auto, what the rate allows
    /// in its own unit of time]
    #[arg(long, visible_alias = "queue", value_name = "PACKETS|auto", value_parser = or_off::burst)]
    burst: Option<OrOff<u64>>,
    /// How to count: token-bucket; leaky-bucket (admits the same packets, described as a queue that drains);
    /// fixed-window and sliding-window (packets per window of the clock); or sliding-log (exact for every window, up to
    /// 64 packets) [default: token-bucket]
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    algorithm: Option<Algorithm>,
    #[command(flatten)]
    excess: Excess,
    /// A wider limit that also applies, up to two for each source: /24=20k/s (all sources of a /24 in total; more than
    /// 32 bits mean IPv6), interface=100MB/s (all sources of an interface), or all=500k/s,1GB/s (all sources). all=off
    /// takes one away, off takes all away
    #[arg(long = "parent", value_name = "SCOPE=RATE[,RATE]|off")]
    parents: Vec<ParentArgument>,
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    let names = Algorithm::ALL.map(Algorithm::name);
    found.ok_or_else(|| format!("expected {} or {}", names[..4].join(", "), names[4]))
}

impl Rates {
    /// Returns the rule for these sources, if a rate is given.
    pub fn spec(&self, sources: Sources) -> Result<Option<RuleSpec>> {
        let Self { packets, bytes, burst, algorithm, excess, parents } = self;
        let is_off = packets.contains(&OrOff::Off);
        ensure!(!is_off || packets.len() == 1, "give --packets one or two rates, or off alone");
        let packets: Vec<PacketRate> = packets.iter().filter_map(|rate| rate.value()).collect();
        let (bytes, burst) = (bytes.and_then(OrOff::value), burst.and_then(OrOff::value));
        let parents = ParentArgument::over(parents, &[]);
        let limited = !packets.is_empty() || bytes.is_some() || burst.is_some();
        if !limited && parents.is_empty() {
            let is_given = algorithm.is_some() || excess.is_given();
            ensure!(
                !is_given,
                "--algorithm, --throttle, --over-limit and --ban need a limit: also give --packets RATE or --bytes RATE"
            );
            return Ok(None);
        }
        ensure!(packets.len() <= 2, "a source has at most two limits: give --packets one or two rates");
        let limit = Limit {
            packets: packets.first().map(|rate| rate.0),
            second_packets: packets.get(1).map(|rate| rate.0),
            bytes: bytes.map(|rate| rate.0),
            burst,
            algorithm: algorithm.unwrap_or_default(),
        };
        ensure!(
            parents.is_empty() || limit.algorithm.is_bucket(),
            "--parent needs token-bucket or leaky-bucket: choose one of these algorithms, or omit --parent"
        );
        ensure!(
            limited || algorithm.is_none(),
            "--algorithm applies to the source's own limit: also give --packets RATE or --bytes RATE, or omit --algorithm"
        );
        // A rule can consist of parents only.
        let policy = if limited { limit.policy()? } else { Policy::UNLIMITED };
        let policy = excess.apply(policy, limited, !parents.is_empty())?;
        if policy.soft != 0 {
            limit.hundredths(policy.soft)?;
        }
        let parents = parents.iter().map(|parent| parent.limit(sources)).collect::<Result<_>>()?;
        Ok(Some(RuleSpec::new(policy, parents)))
    }

    /// Returns whether any rate is given.
    pub fn has_rates(&self) -> bool {
        !self.packets.is_empty() || self.bytes.is_some() || !self.parents.is_empty()
    }

    /// Returns whether a throttle is given.
    pub fn has_throttle(&self) -> bool {
        self.excess.has_throttle()
    }

    /// Returns whether no option is given.
    pub fn is_empty(&self) -> bool {
        !self.has_rates() && self.burst.is_none() && self.algorithm.is_none() && !self.excess.is_given()
    }

    /// Returns the rule for these sources. Fails if no rate is given.
    pub fn some_terms(&self, sources: Sources) -> Result<RuleSpec> {
        Ok(self.spec(sources)?.ok_or(LimitError::Empty)?)
    }
}
