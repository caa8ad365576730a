//! By which attributes a rule tells clients apart.

use std::hash::{Hash as _, Hasher as _};

use ratelimit_limiter::{Attributes, Rule};
use siphasher::sip::SipHasher13;

/// Attributes that say what a request is for. Clients with the same ones are different clients.
const OF_REQUESTS: [&str; 6] = ["operation", "method", "host", "path", "service", "domain"];

/// Returns whether an attribute says who asks, and not only what for.
pub fn is_identity(attribute: &str) -> bool {
    !OF_REQUESTS.contains(&attribute)
}

/// The attributes of a rule that say who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    pub(super) names: Vec<String>,
    pub(super) ipv6_prefix: u8,
    /// Both as a number, which is the same for equal ones.
    pub(super) id: u64,
}

impl Who {
    /// Returns those of a rule.
    pub fn of(rule: &Rule) -> Self {
        let names: Vec<_> = rule.attributes().iter().filter(|name| is_identity(name)).cloned().collect();
        let mut hasher = SipHasher13::new();
        (&names, rule.ipv6_prefix()).hash(&mut hasher);
        Self { names, ipv6_prefix: rule.ipv6_prefix(), id: hasher.finish() }
    }

    /// Returns whether a request with these attributes says who asks.
    pub fn is_told(&self, attributes: &(impl Attributes + ?Sized)) -> bool {
        self.names.iter().all(|name| attributes.value(name).is_some())
    }
}
