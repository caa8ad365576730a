//! The numbers of a limit on the command line.

use std::{cmp::Reverse, str::FromStr, time::Duration};

use anyhow::{Result, ensure};
use ratelimit_common::{
    limit::{Limit, LimitError},
    policy::Policy,
    source::{IPV4, IPV6},
};

use crate::{
    dataplane::{
        target::Sources,
        terms::{ParentLimit, Scope, Terms},
    },
    units::{self, ByteRate, PacketRate},
};

/// The options of a limit.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Rates {
    /// Packets that a source may send, from 1/d to 100M/s
    #[arg(long, value_name = "RATE")]
    pub(super) packets: Option<PacketRate>,
    /// Bytes that a source may send, whole frames counted, from 1B/s to 50GB/s
    #[arg(long, value_name = "RATE")]
    pub(super) bytes: Option<ByteRate>,
    /// Packets that may come at once (as 1,514 bytes each for a limit of bytes) [default: what the rate allows in its own unit of time]
    #[arg(long, value_name = "PACKETS")]
    pub(super) burst: Option<u64>,
    /// Shut a source out for this time once it exceeds the limit: 90s, 10m, 2h, 7d. Forged packets can have others shut out
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    pub(super) ban: Option<Duration>,
    /// A wider limit that must agree too, up to two for each source: /24=20k/s (sources of the same /24 together; over 32 bits: of
    /// IPv6), interface=100MB/s (each interface), all=500k/s,1GB/s
    #[arg(long = "parent", value_name = "SCOPE=RATE[,RATE]")]
    pub(super) parents: Vec<ParentArgument>,
}

impl Rates {
    /// The terms that are meant for these sources, if any rate is given.
    pub(super) fn terms(&self, sources: Sources) -> Result<Option<Terms>> {
        let Self { packets, bytes, burst, ban, ref parents } = *self;
        let limited = packets.is_some() || bytes.is_some() || burst.is_some();
        if !limited && parents.is_empty() {
            ensure!(ban.is_none(), "--ban is for who exceeds a limit: give --packets RATE or --bytes RATE too");
            return Ok(None);
        }
        let limit = Limit { packets: packets.map(|rate| rate.0), bytes: bytes.map(|rate| rate.0), burst };
        // Parents alone are a limit too.
        let policy = if limited { limit.policy()? } else { Policy::UNLIMITED };
        ensure!(
            ban.is_none() || limited && parents.is_empty(),
            "--ban goes with --packets or --bytes, and without --parent"
        );
        let ban = ban.map_or(0, |ban| u64::try_from(ban.as_nanos()).unwrap_or(u64::MAX));
        let policy = Policy { ban, ..policy };
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
        let limit = Limit { packets: packets.map(|rate| rate.0), bytes: bytes.map(|rate| rate.0), burst: None };
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
