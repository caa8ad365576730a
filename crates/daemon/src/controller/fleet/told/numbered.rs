//! A version of the shared rules.

use std::time::SystemTime;

use crate::config::Planned;

/// Rules with the number of their version. None has no rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbered {
    pub(super) version: Option<u64>,
    pub(super) rules: Vec<Planned>,
}

impl Numbered {
    /// Returns the rules that have not ended.
    pub(super) fn lasting(&self) -> Vec<Planned> {
        let now = SystemTime::now();
        self.rules.iter().filter(|rule| rule.until.is_none_or(|until| now < until)).cloned().collect()
    }
}
