//! A value of an option, or the word that takes away what a limit has.

use std::{num::ParseIntError, str::FromStr, time::Duration};

use ratelimit_base::text::units::{self, UnitError};

/// A value, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrOff<T> {
    /// None: `off`, or `auto` for a burst.
    Off,
    /// This value.
    To(T),
}

impl<T> OrOff<T> {
    /// Returns the value.
    pub(super) fn value(self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::To(value) => Some(value),
        }
    }
}

impl<T: FromStr> FromStr for OrOff<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "off" { Ok(Self::Off) } else { text.parse().map(Self::To) }
    }
}

/// Reads a burst in packets, or `auto`.
pub(super) fn burst(text: &str) -> Result<OrOff<u64>, ParseIntError> {
    if text == "auto" { Ok(OrOff::Off) } else { text.parse().map(OrOff::To) }
}

/// Reads a duration, or `off`.
pub(super) fn duration(text: &str) -> Result<OrOff<Duration>, UnitError> {
    if text == "off" { Ok(OrOff::Off) } else { units::duration(text).map(OrOff::To) }
}
