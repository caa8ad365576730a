//! Requests about the shared rules of a fleet, and the answers.

use ratelimit_protocol::fleet::{Logged, Version};
use serde::{Deserialize, Serialize};

/// What a command asks of the shared rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RulesRequest {
    /// Tell the newest version.
    List,
    /// Tell who has changed the rules.
    Log,
    /// Set the rules in this text.
    Set {
        /// The rules as [`crate::config::shared`] writes them.
        text: String,
        /// Why.
        why: String,
        /// Whether lost rules do not matter.
        #[serde(default)]
        anew: bool,
    },
    /// Delete rules for the sources in this text.
    Delete {
        /// Any rules for these sources.
        text: String,
        /// Why.
        why: String,
        /// Whether lost rules do not matter.
        #[serde(default)]
        anew: bool,
    },
    /// Put an earlier version in force again.
    Revert {
        /// The number of the version.
        version: u64,
        /// Why.
        why: String,
        /// Whether lost rules do not matter.
        #[serde(default)]
        anew: bool,
    },
}

impl RulesRequest {
    /// Returns whether it changes the rules.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::List | Self::Log)
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RulesReply {
    /// The newest version.
    Version(Version),
    /// The versions of the log, the newest first.
    Log(Vec<Logged>),
    /// A new version was written.
    Written {
        /// Its number.
        version: u64,
        /// Why it is not in force on this host.
        refused: Option<String>,
        /// Whether this host accepts shared rules.
        accepts: bool,
    },
    /// There was nothing to change.
    Unchanged,
}
