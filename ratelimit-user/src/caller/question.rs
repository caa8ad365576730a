//! What a service asks.

use std::collections::BTreeMap;

use serde::Serialize;

/// One request to decide: its attributes and its cost.
///
/// A question has at most 32 attributes and 64 KiB as JSON. `ip` is an address without a port. No server decides another
/// question, so the request is allowed. A service bounds the values that its clients choose, such as paths, because a
/// client could evade its limit with a huge one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    attributes: BTreeMap<String, String>,
    cost: u32,
}

/// Several requests, as the server reads them.
#[derive(Debug, Serialize)]
pub(super) struct Batch<'a> {
    pub(super) requests: &'a [Question],
}

impl Question {
    /// Creates a question of cost 1.
    #[must_use]
    pub fn new<N: Into<String>, V: Into<String>>(attributes: impl IntoIterator<Item = (N, V)>) -> Self {
        let attributes = attributes.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { attributes, cost: 1 }
    }

    /// Returns the question of a request that counts as so many.
    #[must_use]
    pub fn with_cost(self, cost: u32) -> Self {
        Self { cost, ..self }
    }
}
