//! What rules have counted, for those who keep it.

use std::borrow::Cow;

use super::{attributes::Attributes, client::Client, identity::client_of, rule::Rule, tally::Tally, verdict::Refusal};

/// Keeps what rules have counted. `()` keeps nothing, at no cost.
///
/// The limiter calls it while a request waits for its decision. So it must neither wait nor block.
pub trait Record {
    /// A rule has charged this cost for a request that is allowed. The rule may be in shadow, and the request may be above
    /// a limit.
    fn admitted(&mut self, counted: &Counted<'_>, cost: u32);

    /// A rule has refused a request, or would have, in shadow.
    fn refused(&mut self, counted: &Counted<'_>, refusal: Refusal);
}

impl Record for () {
    fn admitted(&mut self, _: &Counted<'_>, _: u32) {}

    fn refused(&mut self, _: &Counted<'_>, _: Refusal) {}
}

impl<R: Record> Record for Option<R> {
    fn admitted(&mut self, counted: &Counted<'_>, cost: u32) {
        if let Some(record) = self {
            record.admitted(counted, cost);
        }
    }

    fn refused(&mut self, counted: &Counted<'_>, refusal: Refusal) {
        if let Some(record) = self {
            record.refused(counted, refusal);
        }
    }
}

/// A request that a rule has counted.
pub struct Counted<'a> {
    pub(super) rule: &'a Rule,
    pub(super) tally: &'a Tally,
    pub(super) id: u64,
    pub(super) client: Client,
    pub(super) attributes: &'a dyn Attributes,
}

impl Counted<'_> {
    /// Returns the rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        self.rule
    }

    /// Returns how often the rule has decided.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        self.tally
    }

    /// Returns a number for the rule with its key, and one for its client. Both are keyed hashes of this process.
    #[must_use]
    pub fn id(&self) -> (u64, u128) {
        (self.id, self.client)
    }

    /// Returns the client: the attributes that the rule counts by, with their values. Addresses have one spelling, and
    /// those of IPv6 are the prefixes that the rule counts.
    pub fn client(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        client_of(self.rule, self.attributes)
    }
}
