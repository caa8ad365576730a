//! A report about one source.

use ratelimit_common::fleet::share::{Limit, Report};

use crate::key::Key;

/// A report about one source.
#[derive(Debug, Clone)]
pub struct Message {
    /// Key of its record.
    pub key: Key,
    /// Its limit.
    pub limit: Limit,
    /// What this host has seen.
    pub report: Report,
}
