//! Rules whose refused clients are stopped at the network card, and how such a client is called.

use std::borrow::Cow;

use super::{
    attributes::Attributes,
    client::{self, Client, Seed, shown},
    rule::Rule,
};

impl Rule {
    /// Returns the rule with whether the clients that it refuses should be stopped at the network card. The limiter only
    /// tells so: see [`Decision::stop`](super::Decision::stop).
    #[must_use]
    pub fn with_stop(mut self, stops: bool) -> Self {
        self.stops = stops;
        self
    }

    /// Returns whether the clients that it refuses should be stopped at the network card.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.stops
    }

    /// Returns the client of a request: the attributes that the rule counts by, with their values. Addresses have one
    /// spelling, and those of IPv6 are the prefixes that the rule counts.
    pub fn client<'a>(&'a self, attributes: &'a dyn Attributes) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        self.attributes().iter().map(move |name| {
            let value = attributes.value(name).unwrap_or_default();
            (name.as_str(), shown(name, value, self.ipv6_prefix()))
        })
    }
}

/// Returns a keyed hash of the values of these attributes. None if one of them is missing.
pub(crate) fn identity(
    [first, second]: [u64; 2],
    names: &[String],
    ipv6_prefix: u8,
    attributes: &(impl Attributes + ?Sized),
) -> Option<Client> {
    client::client(Seed(first, second), names, ipv6_prefix, attributes)
}
