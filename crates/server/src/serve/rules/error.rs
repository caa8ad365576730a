//! Why a rule is not changed.

use super::store::StoreError;

/// Why a rule is not changed. The rules before stay in force.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum RuleError {
    /// The file names no place for them.
    #[error("this server keeps no rules of callers: add rules = \"/PATH\" to the table [serve] of its file")]
    NoStore,
    /// The rule is in the operator's file.
    #[error("{0} is a rule of the file of this server: change it there")]
    Operators(String),
    /// It has another version than the caller knows.
    #[error("{name} has {}: read it again, then change it", .current.map_or("no version, because it does not exist".to_owned(), |version| format!("version {version} now")))]
    Changed {
        /// The rule.
        name: String,
        /// Its version. None if there is no such rule.
        current: Option<u64>,
    },
    /// There is no such rule.
    #[error("there is no rule {0}")]
    Absent(String),
    /// The rule makes no sense, or does not go with the others.
    #[error("{0}")]
    Wrong(String),
    /// It cannot be kept.
    #[error("nothing is changed: {0}")]
    Unwritable(String),
    /// The engine of the fleet does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// Other servers change rules all the time.
    #[error("nothing is changed: other servers change rules at the same time: try again")]
    Busy,
}

impl From<StoreError> for RuleError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Changed => Self::Busy,
            StoreError::Unusable(problem) | StoreError::Damaged(problem) | StoreError::Taken(problem) => {
                Self::Unwritable(problem)
            }
            StoreError::Unreachable(problem) => Self::Unreachable(problem),
        }
    }
}
