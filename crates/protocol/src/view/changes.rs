//! Changes of rules for packets: what they want, what they would have done, and what became of them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The packets that a rule is for, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// A prefix, or `default`.
    pub sources: String,
    /// A service. Empty: all packets.
    pub service: String,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Limit,
    Deny,
    Allow,
}

/// A rule in the words of commands. What a limit has beside these stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub kind: Kind,
    /// One or two rates. Empty: no limit of packets.
    pub packets: String,
    /// A rate. Empty: no limit of bytes.
    pub bytes: String,
    /// A number. Empty: what the rate allows in its own unit of time.
    pub burst: String,
    /// `drop`, `reject` or `shadow`.
    pub over_limit: String,
    /// Empty: none.
    pub comment: String,
}

/// What a change wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    pub place: Place,
    /// None deletes the rule.
    pub terms: Option<Terms>,
}

/// Who wants a change, as the console says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visitor {
    /// `token:NAME` or `user:NAME`.
    pub name: String,
    /// The address of the connection to the console, and its port there. It stays open.
    pub connection: Option<(IpAddr, u16)>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleState {
    /// Its packets.
    pub packets: String,
    /// What it does, in words. The same words as before mean that it has not changed. None without a rule.
    pub words: Option<String>,
    /// None without a rule, and for a rule that only commands change.
    pub terms: Option<Terms>,
    /// Why only commands change it.
    pub problem: Option<String>,
    /// The last change of it by the console.
    pub last: Option<LastChange>,
}

/// A change that the daemon remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastChange {
    pub number: u64,
    pub at: String,
    pub by: String,
    pub what: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// What a change would have done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// Its packets.
    pub packets: String,
    pub before: Option<String>,
    pub after: Option<String>,
    /// Seconds that the daemon has watched.
    pub seconds: u64,
    /// The sources that it has seen.
    pub seen: Seen,
    /// What the rule in force has refused at least. None if it refuses nothing.
    pub now: Option<Effect>,
    /// What the new rule would have refused at least. None if it refuses nothing.
    pub then: Option<Effect>,
    /// The sources with the most packets that the new rule would have refused.
    pub worst: Vec<HitRow>,
    /// What the numbers leave out.
    pub bounds: Vec<String>,
    /// What the visitor should know before.
    pub warnings: Vec<String>,
}

/// Sources that were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub sources: usize,
    pub packets: u64,
    /// Those that were dropped.
    pub dropped: u64,
}

impl Seen {
    /// Counts a source.
    pub fn add(&mut self, packets: u64, dropped: u64) {
        self.sources += 1;
        self.packets = self.packets.saturating_add(packets);
        self.dropped = self.dropped.saturating_add(dropped);
    }
}

/// What a rule refuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Sources of which it refuses packets.
    pub hit: usize,
    /// All packets of these.
    pub packets: u64,
    /// The refused ones.
    pub refused: u64,
}

/// A source of which a rule refuses packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitRow {
    pub source: String,
    pub packets: u64,
    pub refused: u64,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub number: u64,
    /// The rule that has changed.
    pub place: Place,
}

/// Why nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub text: String,
}

/// What kind of reason it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefusalKind {
    /// A word is wrong.
    Wrong,
    /// The rule has changed, or the change would do harm.
    Conflict,
    /// The file of the daemon does not allow it.
    Forbidden,
}
