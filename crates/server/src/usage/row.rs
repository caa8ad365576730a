//! What a client has used in one hour under one rule.

/// What a client has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that the rule has admitted.
    pub admitted: u64,
    /// What they cost.
    pub cost: u64,
    /// Requests that it has refused.
    pub refused: u64,
    /// Time of the last request, in seconds since the Unix epoch.
    pub last: u64,
}

impl Totals {
    /// Adds up.
    pub(super) fn add(&mut self, other: Self) {
        self.admitted = self.admitted.saturating_add(other.admitted);
        self.cost = self.cost.saturating_add(other.cost);
        self.refused = self.refused.saturating_add(other.refused);
        self.last = self.last.max(other.last);
    }

    /// Returns all requests.
    pub(super) fn requests(self) -> u64 {
        self.admitted.saturating_add(self.refused)
    }
}

/// Which hour of which client under which rule. Rule and client are keyed hashes of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) rule: u64,
    pub(super) client: u128,
    /// Hours since the Unix epoch.
    pub(super) hour: u64,
}

/// What a client has used in one hour under one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The name of the rule.
    pub(super) rule: Box<str>,
    /// The client as [`super::client::stored`] writes it.
    pub(super) client: Box<str>,
    pub(super) totals: Totals,
}
