//! Where rules of callers are kept.

use crate::config::requests::{stored::Contents, written::Keys};

/// Why a place for rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum StoreError {
    /// Another server has changed the rule meanwhile.
    #[error("another server has changed the rule")]
    Changed,
    /// It cannot be read or written, or what is there makes no sense.
    #[error("{0}")]
    Unusable(String),
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

/// A place for rules of callers.
pub(super) trait Store: Send {
    /// Reads all rules with their versions.
    fn read(&self) -> Result<Contents, StoreError>;

    /// Writes or deletes one rule if its version is still the expected one. After a failure, nothing is changed.
    fn write(&self, write: Write<'_>) -> Result<(), StoreError>;
}
