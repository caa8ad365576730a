//! Reasons why a limit is not accepted, with the text that the operator reads.

use core::fmt;

use crate::limits::algorithm::Algorithm;

/// Reason why a limit is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitError {
    /// Neither packets nor bytes are given.
    Empty,
    /// A rate of packets outside its bounds.
    Packets,
    /// A rate of bytes outside its bounds.
    Bytes,
    /// A burst of nothing.
    NoBurst,
    /// A burst that takes longer than 52 days to drain, with the largest one that does not.
    Burst(u64),
    /// A burst of an algorithm that has none.
    BurstOfWindow(Algorithm),
    /// Two limits of packets and one of bytes.
    Three,
    /// A second limit of packets without a first.
    SecondAlone,
    /// More than a window can count, with the largest count.
    Window(Algorithm, u64),
    /// A sliding log of bytes.
    LogOfBytes,
    /// Too few hundredths of a limit: nothing is left, or the rate is out of bounds.
    Hundredths(u8),
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Empty => f.write_str("a limit needs --packets RATE, --bytes RATE or --parent SCOPE=RATE"),
            LimitError::Packets => f.write_str("a packet rate must be between 1/d and 100M/s"),
            LimitError::Bytes => f.write_str("a byte rate must be between 1B/s and 50GB/s (400Gbit/s)"),
            LimitError::NoBurst => f.write_str("a burst must be at least 1 packet"),
            LimitError::Burst(most) => {
                write!(f, "a burst must drain within 52 days: at this rate, at most {most} packets")
            }
            LimitError::BurstOfWindow(algorithm) => {
                let name = algorithm.name();
                write!(
                    f,
                    "{name} has no burst: what its rate says may come at any time of a window. Leave --burst away"
                )
            }
            LimitError::Three => {
                f.write_str("a source can have two limits: two of packets, or one of packets and one of bytes")
            }
            LimitError::SecondAlone => f.write_str("a second limit of packets needs a first"),
            LimitError::Window(algorithm, most) => {
                let name = algorithm.name();
                write!(
                    f,
                    "{name} counts up to {most} in a window of this length: give a smaller rate, or another --algorithm"
                )
            }
            LimitError::LogOfBytes => f.write_str("sliding-log counts packets, not bytes: choose another --algorithm"),
            LimitError::Hundredths(percent) => {
                write!(f, "{percent} % of this limit is less than one packet or a rate below 1/d: give a larger share")
            }
        }
    }
}

impl core::error::Error for LimitError {}
