//! What the daemon answers, in one line of JSON.

use serde::{Deserialize, Serialize};

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Answer {
    /// The kernel limits this address, or this network of addresses, from now on.
    Stopped {
        /// The address or the prefix.
        source: String,
        /// The TCP port on this host.
        port: u16,
        /// How long the limit lasts.
        seconds: u64,
        /// How many limits this source has had lately, with this one.
        times: u32,
    },
    /// In shadow: the daemon would limit this address, or this network of addresses, now.
    WouldStop {
        /// The address or the prefix.
        source: String,
        /// The TCP port on this host.
        port: u16,
        /// How long the limit would last.
        seconds: u64,
        /// How many limits this source has had lately, with this one.
        times: u32,
    },
    /// An earlier request has the same result already. It is not prolonged.
    Already {
        /// The address or the prefix.
        source: String,
        /// The TCP port on this host.
        port: u16,
        /// How long it lasts from now on.
        seconds: u64,
    },
    /// The address is not limited.
    Refused {
        /// The reason as a word.
        reason: Reason,
        /// The reason in a sentence.
        why: String,
    },
}

/// Why an address is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The line is no request.
    Bad,
    /// The kernel knows no such connection.
    NotEstablished,
    /// The address has no single client, or is needed by this host.
    Spared,
    /// A rule, a list, a ban or a default as strict of the operator decides about the address.
    Ruled,
    /// Too many limits begin or are in force, or too many requests arrive.
    TooMany,
    /// The daemon cannot check the request.
    Unknown,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Bad, Self::NotEstablished, Self::Spared, Self::Ruled, Self::TooMany, Self::Unknown];

    /// Returns the word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::NotEstablished => "not-established",
            Self::Spared => "spared",
            Self::Ruled => "ruled",
            Self::TooMany => "too-many",
            Self::Unknown => "unknown",
        }
    }
}
