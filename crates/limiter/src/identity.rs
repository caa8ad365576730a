//! Clients, in words and as hashes.

use std::borrow::Cow;

use super::{
    attributes::Attributes,
    client::{self, Client, Seed, shown},
    rule::Rule,
};

/// Returns the client of a request under a rule: the attributes that the rule counts by, with their values. Addresses have
/// one spelling, and those of IPv6 are the prefixes that the rule counts.
pub fn client_of<'a>(rule: &'a Rule, attributes: &'a dyn Attributes) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
    rule.attributes().iter().map(move |name| {
        let value = attributes.value(name).unwrap_or_default();
        (name.as_str(), shown(name, value, rule.ipv6_prefix()))
    })
}

/// Returns a keyed hash of the values of these attributes. None if one of them is missing.
pub fn identity(
    [first, second]: [u64; 2],
    names: &[String],
    ipv6_prefix: u8,
    attributes: &(impl Attributes + ?Sized),
) -> Option<Client> {
    client::client(Seed(first, second), names, ipv6_prefix, attributes)
}
