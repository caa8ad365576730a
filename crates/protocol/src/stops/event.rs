//! The beginning and the end of a limit, as logs and commands tell of them.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use ratelimit_base::text::units;
use serde::{Deserialize, Serialize};

use super::Asker;

/// The beginning or the end of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The limit begins.
    Stopped {
        /// The address or the prefix.
        source: String,
        /// The TCP port on this host.
        port: u16,
        /// How long it lasts.
        seconds: u64,
        /// How many limits this source has had lately, with this one.
        times: u32,
        /// Whether it is none, because the daemon is in shadow.
        shadow: bool,
        /// Who has asked for it.
        #[serde(flatten)]
        asker: Asker,
    },
    /// The limit has ended.
    StopEnded {
        /// The address or the prefix.
        source: String,
        /// The TCP port on this host.
        port: u16,
        /// Whether it was none, because the daemon was in shadow.
        shadow: bool,
        /// Why it has ended.
        reason: End,
        /// The reason in a sentence, if the host spares the address.
        why: Option<String>,
        /// Who has asked for it.
        #[serde(flatten)]
        asker: Asker,
    },
}

/// Why a limit has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Its time is over.
    Time,
    /// A rule of an operator has taken its place.
    Ruled,
    /// The file has another mode, or no table `[stops]`.
    Mode,
    /// The host spares the address by now.
    Spared,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { source, port, seconds, times, shadow, asker } => {
                let limited = if *shadow { "would be limited" } else { "limited" };
                let time = units::write_duration(Duration::from_secs(*seconds));
                write!(f, "{source} tcp/{port}: {limited} for {time} (number {times}): {asker}")
            }
            Self::StopEnded { source, port, shadow, reason, why, .. } => {
                let has = if *shadow { "would have" } else { "has" };
                write!(f, "{source} tcp/{port}: the limit of an application {has} ")?;
                match reason {
                    End::Time | End::Spared => f.write_str("ended")?,
                    End::Ruled => f.write_str("given way to the operator's rules")?,
                    End::Mode => f.write_str("ended with the mode of the file")?,
                }
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
        }
    }
}

/// An event with its number and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    /// Later events have greater numbers, also those of a later daemon.
    pub number: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// A part of the events that a daemon keeps, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// The events.
    pub events: Vec<Numbered>,
    /// Events before these that the daemon keeps no more.
    pub left_out: u64,
    /// The number of the newest event of the daemon, which need not be among these.
    pub newest: u64,
}
