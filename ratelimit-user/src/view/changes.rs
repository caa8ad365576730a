//! Changes of rules for packets: what they want, what they would have done, and what became of them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The packets that a rule is for, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// A prefix, or `default`.
    pub(crate) sources: String,
    /// A service. Empty: all packets.
    pub(crate) service: String,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    #[default]
    Limit,
    Deny,
    Allow,
}

/// A rule in the words of commands. What a limit has beside these stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Terms {
    pub(crate) kind: Kind,
    /// One or two rates. Empty: no limit of packets.
    pub(crate) packets: String,
    /// A rate. Empty: no limit of bytes.
    pub(crate) bytes: String,
    /// A number. Empty: what the rate allows in its own unit of time.
    pub(crate) burst: String,
    /// `drop`, `reject` or `shadow`.
    pub(crate) over_limit: String,
    /// Empty: none.
    pub(crate) comment: String,
}

/// What a change wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) place: Place,
    /// None deletes the rule.
    pub(crate) terms: Option<Terms>,
}

/// Who wants a change, as the console says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Visitor {
    /// `token:NAME` or `user:NAME`.
    pub(crate) name: String,
    /// The address of the connection to the console, and its port there. It stays open.
    pub(crate) connection: Option<(IpAddr, u16)>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleState {
    /// Its packets.
    pub(crate) packets: String,
    /// What it does, in words. The same words as before mean that it has not changed. None without a rule.
    pub(crate) words: Option<String>,
    /// None without a rule, and for a rule that only commands change.
    pub(crate) terms: Option<Terms>,
    /// Why only commands change it.
    pub(crate) problem: Option<String>,
    /// The last change of it by the console.
    pub(crate) last: Option<LastChange>,
}

/// A change that the daemon remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastChange {
    pub(crate) number: u64,
    pub(crate) at: String,
    pub(crate) by: String,
    pub(crate) what: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

/// What a change would have done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Preview {
    /// Its packets.
    pub(crate) packets: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// Seconds that the daemon has watched.
    pub(crate) seconds: u64,
    /// The sources that it has seen.
    pub(crate) seen: Seen,
    /// What the rule in force has refused at least. None if it refuses nothing.
    pub(crate) now: Option<Effect>,
    /// What the new rule would have refused at least. None if it refuses nothing.
    pub(crate) then: Option<Effect>,
    /// The sources with the most packets that the new rule would have refused.
    pub(crate) worst: Vec<HitRow>,
    /// What the numbers leave out.
    pub(crate) bounds: Vec<String>,
    /// What the visitor should know before.
    pub(crate) warnings: Vec<String>,
}

/// Sources that were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) sources: usize,
    pub(crate) packets: u64,
    /// Those that were dropped.
    pub(crate) dropped: u64,
}

impl Seen {
    /// Counts a source.
    pub(crate) fn add(&mut self, packets: u64, dropped: u64) {
        self.sources += 1;
        self.packets = self.packets.saturating_add(packets);
        self.dropped = self.dropped.saturating_add(dropped);
    }
}

/// What a rule refuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Effect {
    /// Sources of which it refuses packets.
    pub(crate) hit: usize,
    /// All packets of these.
    pub(crate) packets: u64,
    /// The refused ones.
    pub(crate) refused: u64,
}

/// A source of which a rule refuses packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HitRow {
    pub(crate) source: String,
    pub(crate) packets: u64,
    pub(crate) refused: u64,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changed {
    pub(crate) number: u64,
    /// The rule that has changed.
    pub(crate) place: Place,
}

/// Why nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    pub(crate) text: String,
}

/// What kind of reason it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RefusalKind {
    /// A word is wrong.
    Wrong,
    /// The rule has changed, or the change would do harm.
    Conflict,
    /// The file of the daemon does not allow it.
    Forbidden,
}
