//! The numbers of a limit on the command line.

use std::{cmp::Reverse, str::FromStr};

use anyhow::{Result, ensure};
use ratelimit_common::{
    algorithm::Algorithm,
    limit::{Limit, LimitError},
    policy::Policy,
    source::{IPV4, IPV6},
};

use super::excess::Excess;
use crate::{
    dataplane::{
        target::Sources,
        terms::{ParentLimit, Scope, Terms},
    },
    units::{ByteRate, PacketRate},
};

/// The options of a limit.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Rates {
    /// Packets that a source may send, from 1/d to 100M/s; two rates are two limits, such as 10/m,500/h
    #[arg(long, value_name = "RATE[,RATE]", value_delimiter = ',')]
    pub(super) packets: Vec<PacketRate>,
    /// Bytes that a source may send, whole frames counted, from 1B/s to 50GB/s
    #[arg(long, value_name = "RATE")]
    pub(super) bytes: Option<ByteRate>,
    /// Packets that may come at once, or a leaky bucket's queue (as 1,514 bytes each for a limit of bytes); of two rates of packets, the
    /// first one's [default: what the rate allows in its own unit of time]
    #[arg(long, visible_alias = "queue", value_name = "PACKETS")]
    pub(super) burst: Option<u64>,
    /// By what a limit counts: tokens that come back one by one; a queue that drains (the same, by another name); windows of the clock, fixed or
    /// sliding; or a log of up to 64 packets in each window, exact in every one [default: token-bucket]
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    pub(super) algorithm: Option<Algorithm>,
    #[command(flatten)]
    pub(super) excess: Excess,
    /// A wider limit that must agree too, up to two for each source: /24=20k/s (sources of the same /24 together; over 32 bits: of
    /// IPv6), interface=100MB/s (each interface), all=500k/s,1GB/s
    #[arg(long = "parent", value_name = "SCOPE=RATE[,RATE]")]
    pub(super) parents: Vec<ParentArgument>,
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    let names = Algorithm::ALL.map(Algorithm::name);
    found.ok_or_else(|| format!("expected {} or {}", names[..4].join(", "), names[4]))
}

impl Rates {
    /// The terms that are meant for these sources, if any rate is given.
    pub(super) fn terms(&self, sources: Sources) -> Result<Option<Terms>> {
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
        Ok(Some(Terms { policy, parents }))
    }

    /// The same, where one is needed.
    pub(super) fn some_terms(&self, sources: Sources) -> Result<Terms> {
        Ok(self.terms(sources)?.ok_or(LimitError::Empty)?)
    }
}

/// What follows `--parent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParentArgument {
    scope: ScopeArgument,
    packets: Option<PacketRate>,
    bytes: Option<ByteRate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScopeArgument {
    Bits(u8),
    Interface,
    All,
}

/// Text that is no parent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParentError {
    #[error("expected SCOPE=RATE, such as /24=20k/s, interface=100MB/s or all=500k/s,1GB/s")]
    Shape,
    #[error("expected /BITS, interface or all before the equals sign")]
    Scope,
    #[error("expected from 1 to 127 bits after the slash")]
    Bits,
    #[error("expected a rate of packets or bytes after the equals sign, such as 20k/s or 100MB/s")]
    Rate,
    #[error("expected one rate of packets and one of bytes at most")]
    Twice,
}

impl FromStr for ParentArgument {
    type Err = ParentError;

    fn from_str(text: &str) -> Result<Self, ParentError> {
        let (scope, rates) = text.split_once('=').ok_or(ParentError::Shape)?;
        let scope = match (scope, scope.strip_prefix('/')) {
            ("interface", _) => ScopeArgument::Interface,
            ("all", _) => ScopeArgument::All,
            (_, Some(bits)) => {
                let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
                let bits = bits.parse().ok().filter(|bits| digits && (1..=127).contains(bits));
                ScopeArgument::Bits(bits.ok_or(ParentError::Bits)?)
            }
            _ => return Err(ParentError::Scope),
        };
        let mut parent = Self { scope, packets: None, bytes: None };
        for rate in rates.split(',') {
            let is_twice = match (rate.parse(), rate.parse()) {
                (Ok(packets), _) => parent.packets.replace(packets).is_some(),
                (_, Ok(bytes)) => parent.bytes.replace(bytes).is_some(),
                _ => return Err(ParentError::Rate),
            };
            if is_twice {
                return Err(ParentError::Twice);
            }
        }
        Ok(parent)
    }
}

impl ParentArgument {
    fn limit(&self, sources: Sources) -> Result<ParentLimit> {
        let Self { scope, packets, bytes } = *self;
        let limit = Limit { packets: packets.map(|rate| rate.0), bytes: bytes.map(|rate| rate.0), ..Limit::default() };
        let scope = match (scope, sources) {
            (ScopeArgument::All, _) => Scope::All,
            (ScopeArgument::Interface, _) => Scope::Interface,
            (ScopeArgument::Bits(bits), Sources::Default) => {
                Scope::Prefix(if bits > 32 { IPV6 } else { IPV4 }, Reverse(bits))
            }
            (ScopeArgument::Bits(bits), Sources::Prefix(prefix)) => {
                Scope::Prefix(prefix.source().family, Reverse(bits))
            }
        };
        Ok(ParentLimit { scope, policy: limit.policy()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_parent() {
        let error = |text: &str| text.parse::<ParentArgument>().unwrap_err();
        for (text, expected) in [
            ("", ParentError::Shape),
            ("/24", ParentError::Shape),
            ("24=1/s", ParentError::Scope),
            ("ALL=1/s", ParentError::Scope),
            ("/0=1/s", ParentError::Bits),
            ("/128=1/s", ParentError::Bits),
            ("/+9=1/s", ParentError::Bits),
            ("/=1/s", ParentError::Bits),
            ("all=", ParentError::Rate),
            ("all=1", ParentError::Rate),
            ("all=1/s,", ParentError::Rate),
            ("all=0/s", ParentError::Rate),
            ("all=1/s,2/s", ParentError::Twice),
            ("all=1B/s,1/s,2MB/s", ParentError::Twice),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    #[test]
    fn bits_are_of_the_family_that_has_them() {
        let scope = |parent: &str, sources: &str| -> Result<Scope> {
            Ok(parent.parse::<ParentArgument>()?.limit(sources.parse()?)?.scope)
        };
        assert_eq!(scope("/24=1/s", "default").ok(), Some(Scope::Prefix(IPV4, Reverse(24))));
        assert_eq!(scope("/48=1/s", "default").ok(), Some(Scope::Prefix(IPV6, Reverse(48))));
        assert_eq!(scope("/24=1/s", "fd00::/8").ok(), Some(Scope::Prefix(IPV6, Reverse(24))));
        assert_eq!(scope("/32=1/s", "default").ok(), Some(Scope::Prefix(IPV4, Reverse(32))));
    }
}
