//! A named list as JSON and as a row of a table.

use serde::Serialize;

use super::output::{Traffic, expiry, origin};
use crate::{
    dataplane::lists::{action::Action, listing::Listing},
    limit::write,
    text::excerpt::escaped,
};

/// A list in the output.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) action: String,
    /// The name of its policy in a configuration file.
    pub(crate) policy: Option<String>,
    pub(crate) entries: u64,
    pub(crate) addresses: u32,
    pub(crate) prefixes: u32,
    pub(crate) hits: Traffic,
    /// Whether the hits are an estimate.
    pub(crate) hits_estimated: bool,
    /// Seconds.
    pub(crate) expires_in: Option<u64>,
    pub(crate) origin: &'static str,
    pub(crate) file: Option<String>,
}

impl Row {
    pub(crate) fn of(list: &Listing) -> Self {
        let (action, policy) = match &list.action {
            Action::Deny => ("deny".to_owned(), None),
            Action::Limit(spec) => (write::limit(spec), spec.name()),
        };
        Self {
            name: list.name.clone(),
            action,
            policy: policy.map(str::to_owned),
            entries: list.entries(),
            addresses: list.addresses,
            prefixes: list.prefixes,
            hits: Traffic { packets: list.hits.packets, bytes: list.hits.bytes },
            hits_estimated: list.action != Action::Deny,
            expires_in: list.expires_in.map(|left| left.as_secs()),
            origin: origin(list.origin),
            file: list.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
        }
    }

    /// Returns what it does, after the name of its policy.
    pub(crate) fn named_action(&self) -> String {
        self.policy.as_ref().map_or_else(|| self.action.clone(), |name| format!("{name}: {}", self.action))
    }

    fn hits(&self) -> String {
        format!("{}{}", if self.hits_estimated { "~" } else { "" }, self.hits.packets)
    }

    /// Returns the path of its file.
    pub(crate) fn file(&self) -> String {
        self.file.as_deref().map_or_else(|| "-".to_owned(), escaped)
    }

    /// Returns the cells of a table: name, action, entries, hits, end, origin and file.
    pub(crate) fn cells(&self) -> [String; 7] {
        [
            self.name.clone(),
            self.named_action(),
            self.entries.to_string(),
            self.hits(),
            expiry(self.expires_in, None),
            self.origin.to_owned(),
            self.file(),
        ]
    }
}
