//! The floods that the users of a web server feel, and their rates.

use std::fmt;

use ratelimit_tests::{Flood, Frame, Sources};
use serde::Serialize;

use crate::configurations::{BOTNET, PORT as CLOSED_PORT};

/// Port of the web server.
pub(crate) const SERVER_PORT: u16 = 80;

/// First source of a flood by a number of sources.
const FIRST: [u8; 4] = [10, 10, 0, 0];

/// The CPU that sends. Another one receives.
const SENDER: usize = 1;

/// Packets of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Protocol {
    /// SYN to the server's port.
    Syn,
    /// UDP to a port that nobody uses.
    Udp,
}

/// Packets per second of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Rate {
    None,
    PerSecond(u32),
    /// As many as one CPU can send.
    Most,
}

/// A kind of flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) protocol: Protocol,
    pub(crate) sources: Sources,
    /// Names of the plots of pages and of the time of a request.
    pub(crate) plots: [Option<&'static str>; 2],
}

/// All kinds of floods.
pub(crate) const KINDS: [Kind; 8] = [
    Kind { protocol: Protocol::Syn, sources: Sources::Count(1), plots: [None; 2] },
    drawn(Protocol::Syn, Sources::Count(1_000), "users-syn-1k", "users-syn-1k-p99"),
    drawn(Protocol::Syn, BOTNET, "users-syn-128k", "users-syn-128k-p99"),
    drawn(Protocol::Syn, Sources::Endless, "users-syn-endless", "users-syn-endless-p99"),
    Kind { protocol: Protocol::Udp, sources: Sources::Count(1), plots: [None; 2] },
    drawn(Protocol::Udp, Sources::Count(1_000), "users-udp-1k", "users-udp-1k-p99"),
    drawn(Protocol::Udp, BOTNET, "users-udp-128k", "users-udp-128k-p99"),
    drawn(Protocol::Udp, Sources::Endless, "users-udp-endless", "users-udp-endless-p99"),
];

const fn drawn(protocol: Protocol, sources: Sources, pages: &'static str, times: &'static str) -> Kind {
    Kind { protocol, sources, plots: [Some(pages), Some(times)] }
}

impl Kind {
    /// Returns the flood, or nothing if there is none.
    pub(crate) fn flood(self, rate: Rate) -> Option<Flood> {
        let flood = self.as_fast_as_possible().on_cpu(SENDER);
        match rate {
            Rate::None => None,
            Rate::PerSecond(packets) => Some(flood.busy_pace(packets)),
            Rate::Most => Some(flood),
        }
    }

    /// Returns the flood that one CPU sends as fast as it can.
    pub(crate) fn as_fast_as_possible(self) -> Flood {
        let flood = Flood::of(match self.protocol {
            Protocol::Syn => Frame::syn(FIRST, SERVER_PORT),
            Protocol::Udp => Frame::udp(FIRST, CLOSED_PORT),
        });
        match self.sources {
            Sources::Count(1) => flood,
            Sources::Count(count) => flood.sources(count).in_random_order(),
            Sources::Endless => flood.endless(0),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Syn => "TCP SYN",
            Protocol::Udp => "UDP",
        };
        match self.sources {
            Sources::Count(1) => write!(f, "{protocol}, one source"),
            sources => write!(f, "{protocol}, {sources} sources"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::PerSecond(packets) if packets.is_multiple_of(1_000_000) => write!(f, "{} M/s", packets / 1_000_000),
            Self::PerSecond(packets) => write!(f, "{} k/s", packets / 1_000),
            Self::Most => f.write_str("most"),
        }
    }
}
