//! A limit as people write it: the options of commands, and the keys of a configuration file.

pub(crate) mod excess;
mod parent;
pub(crate) mod write;

use anyhow::{Result, ensure};
use ratelimit_common::limits::{
    algorithm::Algorithm,
    limit::{Limit, LimitError},
    policy::Policy,
};

use self::{excess::Excess, parent::ParentArgument};
use crate::{
    dataplane::rules::{spec::Terms, target::Sources},
    units::{ByteRate, PacketRate},
};

/// The options of a limit.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Rates {
    /// Packets that a source may send, from 1/d to 100M/s; two rates are two limits, such as 10/m,500/h
    #[arg(long, value_name = "RATE[,RATE]", value_delimiter = ',')]
    pub(crate) packets: Vec<PacketRate>,
    /// Bytes that a source may send, whole frames counted, from 1B/s to 50GB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) bytes: Option<ByteRate>,
    /// Packets that may come at once, or a leaky bucket's queue (as 1,514 bytes each for a limit of bytes); of two rates of packets, the
    /// first one's [default: what the rate allows in its own unit of time]
    #[arg(long, visible_alias = "queue", value_name = "PACKETS")]
    pub(crate) burst: Option<u64>,
    /// By what a limit counts: tokens that come back one by one; a queue that drains (the same, by another name); windows of the clock, fixed or
    /// sliding; or a log of up to 64 packets in each window, exact in every one [default: token-bucket]
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    pub(crate) algorithm: Option<Algorithm>,
    #[command(flatten)]
    pub(crate) excess: Excess,
    /// A wider limit that must agree too, up to two for each source: /24=20k/s (sources of the same /24 together; over 32 bits: of
    /// IPv6), interface=100MB/s (each interface), all=500k/s,1GB/s
    #[arg(long = "parent", value_name = "SCOPE=RATE[,RATE]")]
    pub(crate) parents: Vec<ParentArgument>,
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    let names = Algorithm::ALL.map(Algorithm::name);
    found.ok_or_else(|| format!("expected {} or {}", names[..4].join(", "), names[4]))
}

impl Rates {
    /// The terms that are meant for these sources, if any rate is given.
    pub(crate) fn terms(&self, sources: Sources) -> Result<Option<Terms>> {
        let Self { packets, bytes, burst, algorithm, excess, parents } = self;
        let limited = !packets.is_empty() || bytes.is_some() || burst.is_some();
        if !limited && parents.is_empty() {
            let is_given = algorithm.is_some() || excess.is_given();
            ensure!(
                !is_given,
                "--algorithm, --throttle, --over-limit and --ban need a limit that they are for: give --packets RATE or --bytes RATE too"
            );
            return Ok(None);
        }
        ensure!(packets.len() <= 2, "a source has two limits at most: give --packets one rate or two");
        let limit = Limit {
            packets: packets.first().map(|rate| rate.0),
            second_packets: packets.get(1).map(|rate| rate.0),
            bytes: bytes.map(|rate| rate.0),
            burst: *burst,
            algorithm: algorithm.unwrap_or_default(),
        };
        ensure!(
            parents.is_empty() || limit.algorithm.is_bucket(),
            "--parent goes with token-bucket or leaky-bucket: choose one of these, or leave it away"
        );
        ensure!(
            limited || algorithm.is_none(),
            "--algorithm is for the source's own limit: give --packets RATE or --bytes RATE too, or leave it away"
        );
        // Parents alone are a limit too.
        let policy = if limited { limit.policy()? } else { Policy::UNLIMITED };
        let policy = excess.apply(policy, limited, !parents.is_empty())?;
        if policy.soft != 0 {
            limit.hundredths(policy.soft)?;
        }
        let parents = parents.iter().map(|parent| parent.limit(sources)).collect::<Result<_>>()?;
        Ok(Some(Terms::new(policy, parents)))
    }

    /// The same, where one is needed.
    pub(crate) fn some_terms(&self, sources: Sources) -> Result<Terms> {
        Ok(self.terms(sources)?.ok_or(LimitError::Empty)?)
    }
}
