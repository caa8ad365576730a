//! A named list as JSON and as a row of a table.

use ratelimit_base::text::excerpt::escaped;
use ratelimit_common::rules::rule::CONFIG;
use ratelimit_daemon::config::daemon::kept::Kept;
use ratelimit_dataplane::lists::{action::Action, listing::Listing};
use serde::Serialize;

use super::{
    output::{expiry, origin, set_by},
    policy_row::PolicyRow,
    source_row::Counted,
};

/// A list in the output.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// `deny` or `limit`.
    action: &'static str,
    /// What a list that limits does.
    pub(crate) policy: Option<PolicyRow>,
    pub(crate) entries: u64,
    pub(crate) addresses: u32,
    pub(crate) prefixes: u32,
    pub(crate) hits: Counted,
    pub(crate) expires_in_seconds: Option<u64>,
    pub(crate) origin: &'static str,
    #[serde(skip)]
    pub(crate) set_by: &'static str,
    pub(crate) file: Option<String>,
    /// The address of a list on a server, without its query. The file is the daemon's copy then.
    url: Option<String>,
}

impl Row {
    pub(crate) fn of(list: &Listing) -> Self {
        let (action, policy) = match &list.action {
            Action::Deny => ("deny", None),
            Action::Limit(spec) => ("limit", Some(PolicyRow::of_limit(spec))),
        };
        Self {
            name: list.name.clone(),
            action,
            policy,
            entries: list.entries(),
            addresses: list.addresses,
            prefixes: list.prefixes,
            hits: Counted { estimated: list.action != Action::Deny, ..list.hits.into() },
            expires_in_seconds: list.expires_in.map(|left| left.as_secs()),
            origin: origin(list.origin),
            set_by: set_by(list.origin),
            file: list.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
            url: list.file.as_ref().filter(|_| list.origin == CONFIG).and_then(|file| Kept::address(file)),
        }
    }

    /// Returns what it does.
    pub(crate) fn action_text(&self) -> &str {
        self.policy.as_ref().map_or(self.action, |policy| &policy.text)
    }

    /// Returns what it does, after the name of its policy.
    pub(crate) fn named_action(&self) -> String {
        let name = self.policy.as_ref().and_then(|policy| policy.name.as_ref());
        name.map_or_else(|| self.action_text().to_owned(), |name| format!("{name}: {}", self.action_text()))
    }

    fn hits(&self) -> String {
        format!("{}{}", if self.hits.estimated { "~" } else { "" }, self.hits.packets)
    }

    /// Returns its address, or the path of its file.
    pub(crate) fn place(&self) -> String {
        self.url.as_deref().or(self.file.as_deref()).map_or_else(|| "-".to_owned(), escaped)
    }

    /// Returns the cells of a table: name, action, entries, hits, end, origin and place.
    pub(crate) fn cells(&self) -> [String; 7] {
        [
            self.name.clone(),
            self.named_action(),
            self.entries.to_string(),
            self.hits(),
            expiry(self.expires_in_seconds, None),
            self.origin.to_owned(),
            self.place(),
        ]
    }
}
