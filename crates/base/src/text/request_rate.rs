//! Rates of requests as text.

use std::{fmt, str::FromStr};

use ratelimit_common::limits::limit::Rate;

use super::units::{PacketRate, UnitError};

const EXPECTED: UnitError = UnitError::new("expected requests per s, m, h or d, such as 100/h, 3/m or 1.5k/s");

/// A rate of requests: `100/h`, `3/m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRate(pub Rate);

impl FromStr for RequestRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let PacketRate(rate) = text.parse().map_err(|_| EXPECTED)?;
        Ok(Self(rate))
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PacketRate(self.0).fmt(f)
    }
}
