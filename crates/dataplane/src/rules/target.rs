//! The packets that a rule matches: their sources and their service.

use std::{fmt, str::FromStr};

use ratelimit_base::text::{
    prefix::{Prefix, PrefixError},
    service::{ServiceError, ServiceName},
};
use ratelimit_common::identity::service::Service;

/// The packets that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Their sources.
    pub sources: Sources,
    /// Their service.
    pub service: Service,
}

/// The sources that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sources {
    /// Every source that no other rule matches.
    Default,
    /// Every source in a prefix.
    Prefix(Prefix),
}

impl Target {
    /// All packets of every source that no other rule matches.
    pub const DEFAULT: Self = Self { sources: Sources::Default, service: Service::Any };

    /// Returns the target of all packets of the sources in a prefix.
    #[must_use]
    pub fn prefix(prefix: Prefix) -> Self {
        Self::from(Sources::Prefix(prefix))
    }

    /// Returns the target of the same sources' packets of one service.
    #[must_use]
    pub fn of(self, service: Service) -> Self {
        Self { service, ..self }
    }
}

impl From<Prefix> for Sources {
    fn from(prefix: Prefix) -> Self {
        Self::Prefix(prefix)
    }
}

impl From<Sources> for Target {
    fn from(sources: Sources) -> Self {
        Self { sources, service: Service::Any }
    }
}

/// An invalid target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// In the sources.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// In the service.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Invalid sources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourcesError {
    /// Neither `default` nor a prefix.
    #[error("{0}, or the word default")]
    Neither(PrefixError),
    /// An invalid prefix.
    #[error(transparent)]
    Prefix(PrefixError),
}

impl FromStr for Sources {
    type Err = SourcesError;

    fn from_str(text: &str) -> Result<Self, SourcesError> {
        match text.parse() {
            Ok(prefix) => Ok(Self::Prefix(prefix)),
            Err(_) if text == "default" => Ok(Self::Default),
            Err(error @ PrefixError::Address) => Err(SourcesError::Neither(error)),
            Err(error) => Err(SourcesError::Prefix(error)),
        }
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Prefix(prefix) => prefix.fmt(f),
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        Ok(match text.split_once(' ') {
            Some((sources, service)) => Self { sources: sources.parse()?, service: service.parse::<ServiceName>()?.0 },
            None => Self::from(text.parse::<Sources>()?),
        })
    }
}

/// Writes `203.0.113.0/24`, or `203.0.113.0/24 udp/53` for one service.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.service {
            Service::Any => self.sources.fmt(f),
            service => write!(f, "{} {}", self.sources, ServiceName(service)),
        }
    }
}
