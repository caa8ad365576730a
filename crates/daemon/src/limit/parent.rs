//! The value of `--parent`: `/24=20k/s`.

use std::{cmp::Reverse, str::FromStr};

use anyhow::Result;
use ratelimit_base::text::units::{ByteRate, PacketRate};
use ratelimit_common::{
    identity::source::{IPV4, IPV6},
    limits::limit::Limit,
};
use ratelimit_dataplane::rules::{
    spec::{ParentLimit, Scope},
    target::Sources,
};

/// A parsed value of `--parent`. Without rates, it takes a parent away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParentArgument {
    scope: ScopeArgument,
    packets: Option<PacketRate>,
    bytes: Option<ByteRate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScopeArgument {
    /// Every scope: the word `off`.
    Every,
    Bits(u8),
    Interface,
    All,
}

/// Text that cannot be parsed as a parent.
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
    #[error("expected at most one rate of packets and one of bytes")]
    Twice,
}

impl FromStr for ParentArgument {
    type Err = ParentError;

    fn from_str(text: &str) -> Result<Self, ParentError> {
        if text == "off" {
            return Ok(Self { scope: ScopeArgument::Every, packets: None, bytes: None });
        }
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
        for rate in rates.split(',').filter(|_| rates != "off") {
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
    /// Returns the value that gives this parent.
    pub(super) fn of(parent: &ParentLimit) -> Self {
        let scope = match parent.scope {
            Scope::All => ScopeArgument::All,
            Scope::Interface => ScopeArgument::Interface,
            Scope::Prefix(_, Reverse(bits)) => ScopeArgument::Bits(bits),
        };
        let Limit { packets, bytes, .. } = Limit::of(&parent.policy);
        Self { scope, packets: packets.map(PacketRate), bytes: bytes.map(ByteRate) }
    }

    /// Returns the given parents, and those of `before` whose scope is not given. Equal scopes that are given stay, so
    /// that they are refused later.
    pub(super) fn over(given: &[Self], before: &[Self]) -> Vec<Self> {
        let is_given = |scope| given.iter().any(|given| given.scope == scope);
        let stays = |parent: &&Self| !is_given(parent.scope) && !is_given(ScopeArgument::Every);
        let has_rates = |parent: &&Self| parent.packets.is_some() || parent.bytes.is_some();
        before.iter().filter(stays).chain(given.iter().filter(has_rates)).copied().collect()
    }

    pub(super) fn limit(&self, sources: Sources) -> Result<ParentLimit> {
        let Self { scope, packets, bytes } = *self;
        let limit = Limit { packets: packets.map(|rate| rate.0), bytes: bytes.map(|rate| rate.0), ..Limit::default() };
        let scope = match (scope, sources) {
            (ScopeArgument::All | ScopeArgument::Every, _) => Scope::All,
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
    fn invalid_parents_are_refused() {
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
    fn the_family_of_a_prefix_length_follows_from_the_sources() {
        let scope = |parent: &str, sources: &str| -> Result<Scope> {
            Ok(parent.parse::<ParentArgument>()?.limit(sources.parse()?)?.scope)
        };
        assert_eq!(scope("/24=1/s", "default").ok(), Some(Scope::Prefix(IPV4, Reverse(24))));
        assert_eq!(scope("/48=1/s", "default").ok(), Some(Scope::Prefix(IPV6, Reverse(48))));
        assert_eq!(scope("/24=1/s", "fd00::/8").ok(), Some(Scope::Prefix(IPV6, Reverse(24))));
        assert_eq!(scope("/32=1/s", "default").ok(), Some(Scope::Prefix(IPV4, Reverse(32))));
    }
}
