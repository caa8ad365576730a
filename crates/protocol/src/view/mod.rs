//! What the daemon shows of packets to other programs, and what these change: questions and answers as lines of JSON. No
//! I/O.

mod changes;
mod reasons;

use serde::{Deserialize, Serialize};

pub use self::{
    changes::{
        Changed, Effect, HitRow, Kind, LastChange, Place, Preview, Refusal, RefusalKind, RuleState, Seen, Terms,
        Visitor, Wanted,
    },
    reasons::in_words,
};

/// The longest question, in bytes.
pub const LINE: usize = 8 << 10;
/// The longest answer, in bytes.
pub const ANSWER: usize = 1 << 20;
/// The most rows of an answer.
pub const ROWS: usize = 50;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Question {
    /// How many packets had which reason.
    Counts,
    /// The sources with the most dropped packets.
    Sources,
    /// Rules whose text has this text, from this one on.
    Rules {
        /// The text.
        search: String,
        /// The rules before.
        from: usize,
    },
    /// Named lists.
    Lists,
    /// The last changes, the newest first.
    Changes,
    /// One rule.
    Rule(Place),
    /// What a change would have done.
    Preview {
        /// The change.
        wanted: Wanted,
        /// Who wants it.
        visitor: Visitor,
    },
    /// To make a change.
    Change {
        /// The change.
        wanted: Wanted,
        /// The words of the rule before. None if there was none.
        before: Option<String>,
        /// Who wants it.
        visitor: Visitor,
    },
    /// To take back a change by the console.
    Undo {
        /// Its number.
        number: u64,
        /// The packets of its rule.
        place: Place,
        /// Who wants it.
        visitor: Visitor,
    },
}

impl Question {
    /// Returns whether it changes rules.
    pub const fn is_change(&self) -> bool {
        matches!(self, Self::Change { .. } | Self::Undo { .. })
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Packets by reason, since the instance began.
    Counts(Counts),
    /// Sources.
    Sources(Vec<SourceRow>),
    /// Rules.
    Rules(Rules),
    /// Lists.
    Lists(Vec<ListRow>),
    /// Changes.
    Changes(Vec<ChangeRow>),
    /// One rule.
    Rule(Box<RuleState>),
    /// What a change would have done.
    Preview(Box<Preview>),
    /// A change is in force.
    Changed(Changed),
    /// Nothing has changed, for this reason.
    Refused(Refusal),
    /// There is no answer, for this reason.
    Failed(String),
}

/// How many packets had which reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The interfaces.
    pub interfaces: Vec<String>,
    /// All reasons that packets had.
    pub reasons: Vec<ReasonRow>,
}

/// The packets of one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonRow {
    pub name: String,
    pub passes: bool,
    pub packets: u64,
    pub bytes: u64,
    /// Packets that passed in shadow, and would have been dropped for this reason.
    pub would_drop: u64,
}

/// A source, with estimates of its packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRow {
    pub source: String,
    pub service: String,
    pub passed: u64,
    pub dropped: u64,
    /// Packets that passed in shadow, and would have been dropped.
    pub would_drop: u64,
}

/// Rules, and how many of those that were read have this text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    pub count: usize,
    pub rows: Vec<RuleRow>,
    /// The rules that were read, if there was no time for all.
    #[serde(default)]
    pub read: Option<usize>,
}

/// A rule in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRow {
    pub packets: String,
    /// The same in two parts.
    #[serde(default)]
    pub place: Place,
    pub policy: String,
    pub origin: String,
    /// Seconds until it ends. None if it stays.
    pub ends_in: Option<u64>,
    pub comment: Option<String>,
}

/// A list in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRow {
    pub name: String,
    pub action: String,
    pub entries: u64,
    pub packets: u64,
    /// Seconds until it ends. None if it stays.
    pub ends_in: Option<u64>,
}

/// A change in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRow {
    pub at: String,
    pub by: String,
    pub what: String,
}
