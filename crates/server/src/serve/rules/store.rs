//! Where rules of callers are kept.

use serde_json::Value;

use super::{entry::Entry, in_force::InForce, teams::Teams};
use crate::config::{
    stored::{Contents, Stored},
    written::Keys,
};

/// Why a place for rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum StoreError {
    /// Another server has changed the rules meanwhile.
    #[error("another server has changed the rules")]
    Changed,
    /// It cannot be read or written, or what is there makes no sense.
    #[error("{0}")]
    Unusable(String),
    /// Its bytes are none that a server has written.
    #[error("{0}")]
    Damaged(String),
    /// Another server has it.
    #[error("{0}")]
    Taken(String),
    /// It cannot be reached now.
    #[error("{0}")]
    Unreachable(String),
}

/// One change of a rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) name: &'a str,
    /// The version that the rule has now. None if it does not exist.
    pub(super) expected: Option<u64>,
    /// The version of this change. It is larger than all before.
    pub(super) version: u64,
    /// The new keys. None deletes the rule.
    pub(super) keys: Option<&'a Keys>,
}

impl Write<'_> {
    /// Returns the rules after this change.
    pub(super) fn applied_to(self, before: &Contents) -> Result<Contents, StoreError> {
        let Self { name, expected, version, keys } = self;
        if before.rules.get(name).map(|rule| rule.version) != expected || before.version >= version {
            return Err(StoreError::Changed);
        }
        let mut after = Contents { version, ..before.clone() };
        match keys {
            Some(keys) => drop(after.rules.insert(name.to_owned(), Stored { version, keys: keys.clone() })),
            None => drop(after.rules.remove(name)),
        }
        Ok(after)
    }
}

/// Returns so many of the last changes of wanted rules, the newest first.
pub(super) type ReadLog = Box<dyn FnOnce(usize, &dyn Fn(&str) -> bool) -> Result<Vec<Value>, StoreError> + Send>;

/// A place for rules of callers, with the log of their changes.
pub(super) trait Store: Send {
    /// Returns rules that others have put there. [`Self::settle`] must follow.
    fn news(&mut self) -> Result<Option<Contents>, StoreError> {
        Ok(None)
    }

    /// Takes whether the rules of [`Self::news`] can be in force here, or why not.
    fn settle(&mut self, _outcome: Result<(), String>) {}

    /// Takes what is in force, with the rules that are left out.
    fn leave_out(&mut self, _in_force: &InForce) {}

    /// Returns all rules with their versions, as this server knows them.
    fn known(&self) -> Result<Contents, StoreError>;

    /// Returns the latest version in the log, if it can be larger than that of the rules.
    fn version(&self) -> u64 {
        0
    }

    /// Writes or deletes one rule if its version is still the expected one. After a failure, nothing is changed. Each of the
    /// teams has its part of the log.
    fn write(&mut self, write: Write<'_>, entry: &Entry<'_>, teams: &Teams) -> Result<(), StoreError>;

    /// Returns what reads the log. Changes go on meanwhile.
    fn log(&self, teams: &Teams) -> Result<ReadLog, StoreError>;
}
