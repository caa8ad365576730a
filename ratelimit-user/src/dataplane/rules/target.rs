//! What a rule is about: which sources, and which of their packets.

use std::{fmt, str::FromStr};

use ratelimit_common::identity::service::Service;

use crate::{
    prefix::{Prefix, PrefixError},
    service::{ServiceError, ServiceName},
};

/// The packets that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Who sends them.
    pub sources: Sources,
    /// What they are for.
    pub service: Service,
}

/// The sources that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sources {
    /// Every source that no other rule concerns.
    Default,
    /// Every source in a prefix.
    Prefix(Prefix),
}

impl Target {
    /// All packets of every source that no other rule concerns.
    pub const DEFAULT: Self = Self { sources: Sources::Default, service: Service::Any };

    /// All packets of the sources in a prefix.
    #[must_use]
    pub fn prefix(prefix: Prefix) -> Self {
        Self::from(Sources::Prefix(prefix))
    }

    /// The same sources' packets of one service.
    #[must_use]
    pub fn of(self, service: Service) -> Self {
        Self { service, ..self }
    }
}

impl From<Sources> for Target {
    fn from(sources: Sources) -> Self {
        Self { sources, service: Service::Any }
    }
}

/// Text that is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// In the sources.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// In the service.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Text that names no sources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourcesError {
    /// Neither the word nor a prefix.
    #[error("{0}, or the word default")]
    Neither(PrefixError),
    /// A prefix that cannot be.
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

/// `203.0.113.0/24`, or `203.0.113.0/24 udp/53` for one service.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.service {
            Service::Any => self.sources.fmt(f),
            service => write!(f, "{} {}", self.sources, ServiceName(service)),
        }
    }
}
