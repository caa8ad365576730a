//! What a list does.

use crate::rules::spec::RuleSpec;

/// What a list does with its sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It denies them.
    Deny,
    /// It limits each of them.
    Limit(Box<RuleSpec>),
}
