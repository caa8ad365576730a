//! Events in words and as JSON.

use std::fmt;

use jiff::Timestamp;
use ratelimit_base::text::units;
use ratelimit_dataplane::program::values::per_second;
use ratelimit_protocol::stops::Event;
use serde::Serialize;

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// When it happened, if the program knows that. Otherwise when it was noticed.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// The source of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Who {
    /// Address or prefix.
    pub source: String,
    /// The service of its packets, or `any`.
    pub service: String,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// A limit refuses packets of a source.
    Throttled {
        /// The source.
        #[serde(flatten)]
        who: Who,
        /// The name of the reason.
        reason: &'static str,
        /// Whether its packets pass in shadow mode.
        shadow: bool,
    },
    /// No packet of the source was refused for a while.
    Ended {
        /// The source.
        #[serde(flatten)]
        who: Who,
        /// Its packets that were dropped in this time, as far as they are known.
        dropped: u64,
        /// Whether this number is an estimate.
        estimated: bool,
        /// The time from the first to the last drop.
        seconds: u64,
        /// Whether the packets passed in shadow mode.
        shadow: bool,
    },
    /// A source was banned.
    Banned {
        /// The source.
        #[serde(flatten)]
        who: Who,
        /// For how long.
        seconds: u64,
    },
    /// A ban has ended or was lifted.
    Unbanned {
        /// The source.
        #[serde(flatten)]
        who: Who,
    },
    /// Packets are dropped because the budget for new buckets is spent.
    AdmissionTripped,
    /// The budget for new buckets suffices again.
    AdmissionRecovered {
        /// Packets that were dropped in this time.
        dropped: u64,
    },
    /// First SYNs of unknown sources get SYN cookies, because their rate is spent.
    CookiesStarted {
        /// That rate, in packets per second.
        unknown_per_second: u64,
    },
    /// No SYN got a cookie for a while.
    CookiesEnded {
        /// SYN cookies that were sent in this time.
        sent: u64,
        /// SYNs without an answer, because the budget was spent.
        unsent: u64,
        /// Sources that acknowledged their cookie.
        proven: u64,
        /// The time from the first to the last cookie.
        seconds: u64,
    },
    /// An operator or the daemon has changed something.
    Changed {
        /// The user, with the address of the SSH session, or `daemon`.
        by: String,
        /// The command, or what the daemon has done.
        what: String,
    },
    /// Events were lost.
    LeftOut {
        /// Their number.
        count: u64,
    },
    /// A client is stopped for an application, or is no longer.
    #[serde(untagged)]
    Stop(Event),
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
            Self::Ended { who, dropped, estimated, seconds, shadow } => {
                let (no_longer, were) = match shadow {
                    true => ("would no longer be throttled", "would have been dropped"),
                    false => ("no longer throttled", "dropped"),
                };
                let about = if *estimated { "about " } else { "" };
                write!(f, "{who}: {no_longer}, {about}{dropped} packets {were} in {}", time(seconds))
            }
            Self::Banned { who, seconds } => write!(f, "{who}: banned for {}", time(seconds)),
            Self::Unbanned { who } => write!(f, "{who}: no longer banned"),
            Self::AdmissionTripped => {
                f.write_str("the budget for new buckets is spent: packets that need a new bucket are dropped")
            }
            Self::AdmissionRecovered { dropped } => {
                write!(f, "the budget for new buckets suffices again, {dropped} packets were dropped")
            }
            Self::CookiesStarted { unknown_per_second } => {
                let rate = per_second(*unknown_per_second);
                write!(f, "unknown sources send more than {rate}: their first SYNs get SYN cookies")
            }
            Self::CookiesEnded { sent, unsent, proven, seconds } => {
                write!(f, "no more SYN cookies: {sent} sent, {unsent} not sent, ")?;
                write!(f, "{proven} sources proven in {}", time(seconds))
            }
            Self::Changed { by, what } => write!(f, "{by}: {what}"),
            Self::Stop(event) => write!(f, "{event}"),
            Self::LeftOut { count } => write!(f, "{count} more events were left out"),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} {}", self.at, self.what)
    }
}
