//! What is told of, in words and as JSON.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::units;

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// When, as far as the program knows it; otherwise when it was noticed.
    pub time: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// Who has done it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Who {
    /// Address or prefix.
    pub source: String,
    /// The service of its packets: `any` where none is told apart.
    pub service: String,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// A source is over its limit.
    Throttled {
        /// It.
        #[serde(flatten)]
        who: Who,
        /// The name of the reason.
        reason: &'static str,
        /// Its packets pass all the same.
        shadow: bool,
    },
    /// It was not refused any more for a while.
    Ended {
        /// It.
        #[serde(flatten)]
        who: Who,
        /// Packets of it that were dropped meanwhile, as far as they are known.
        dropped: u64,
        /// How long it lasted.
        seconds: u64,
        /// They have passed all the same.
        shadow: bool,
    },
    /// A source was banned.
    Banned {
        /// It.
        #[serde(flatten)]
        who: Who,
        /// For how long.
        seconds: u64,
    },
    /// Its ban has ended, or was lifted.
    Unbanned {
        /// It.
        #[serde(flatten)]
        who: Who,
    },
    /// Sources are dropped because there are no new buckets for now.
    AdmissionTripped,
    /// There are again.
    AdmissionRecovered {
        /// Packets that were dropped meanwhile.
        dropped: u64,
    },
    /// More has happened than is told.
    LeftOut {
        /// Events.
        count: u64,
    },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.service == "any" { write!(f, "{}", self.source) } else { write!(f, "{} {}", self.source, self.service) }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |seconds: &u64| units::write_duration(std::time::Duration::from_secs(*seconds));
        match self {
            Self::Throttled { who, reason, shadow } => {
                write!(f, "{who}: {} ({reason})", if *shadow { "would be throttled" } else { "throttled" })
            }
            Self::Ended { who, dropped, seconds, shadow } => {
                let (no_longer, were) = match shadow {
                    true => ("would no longer be throttled", "would have been dropped"),
                    false => ("no longer throttled", "dropped"),
                };
                write!(f, "{who}: {no_longer}, {dropped} packets {were} in {}", time(seconds))
            }
            Self::Banned { who, seconds } => write!(f, "{who}: banned for {}", time(seconds)),
            Self::Unbanned { who } => write!(f, "{who}: no longer banned"),
            Self::AdmissionTripped => {
                f.write_str("the budget for new buckets is spent: packets of new sources over their share are dropped")
            }
            Self::AdmissionRecovered { dropped } => {
                write!(f, "the budget for new buckets suffices again, {dropped} packets dropped")
            }
            Self::LeftOut { count } => write!(f, "{count} more events were left out"),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} {}", self.time, self.what)
    }
}
