//! What the daemon shows of packets to other programs, and what these change: questions and answers as lines of JSON. No
//! I/O.

mod changes;
mod reasons;

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    changes::{
        Changed, Effect, HitRow, Kind, LastChange, Place, Preview, Refusal, RefusalKind, RuleState, Seen, Terms,
        Visitor, Wanted,
    },
    reasons::in_words,
};

/// The longest question, in bytes.
pub(crate) const LINE: usize = 8 << 10;
/// The longest answer, in bytes.
pub(crate) const ANSWER: usize = 1 << 20;
/// The most rows of an answer.
pub(crate) const ROWS: usize = 50;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Question {
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
    pub(crate) const fn is_change(&self) -> bool {
        matches!(self, Self::Change { .. } | Self::Undo { .. })
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
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
pub(crate) struct Counts {
    /// The interfaces.
    pub(crate) interfaces: Vec<String>,
    /// All reasons that packets had.
    pub(crate) reasons: Vec<ReasonRow>,
}

/// The packets of one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReasonRow {
    pub(crate) name: String,
    pub(crate) passes: bool,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets that passed in shadow, and would have been dropped for this reason.
    pub(crate) would_drop: u64,
}

/// A source, with estimates of its packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceRow {
    pub(crate) source: String,
    pub(crate) service: String,
    pub(crate) passed: u64,
    pub(crate) dropped: u64,
    /// Packets that passed in shadow, and would have been dropped.
    pub(crate) would_drop: u64,
}

/// Rules, and how many of those that were read have this text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rules {
    pub(crate) count: usize,
    pub(crate) rows: Vec<RuleRow>,
    /// The rules that were read, if there was no time for all.
    #[serde(default)]
    pub(crate) read: Option<usize>,
}

/// A rule in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleRow {
    pub(crate) packets: String,
    /// The same in two parts.
    #[serde(default)]
    pub(crate) place: Place,
    pub(crate) policy: String,
    pub(crate) origin: String,
    /// Seconds until it ends. None if it stays.
    pub(crate) ends_in: Option<u64>,
    pub(crate) comment: Option<String>,
}

/// A list in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListRow {
    pub(crate) name: String,
    pub(crate) action: String,
    pub(crate) entries: u64,
    pub(crate) packets: u64,
    /// Seconds until it ends. None if it stays.
    pub(crate) ends_in: Option<u64>,
}

/// A change in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangeRow {
    pub(crate) at: String,
    pub(crate) by: String,
    pub(crate) what: String,
}
