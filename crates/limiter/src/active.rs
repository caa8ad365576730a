//! A rule in force, with its clients.

use std::{
    hash::{Hash as _, Hasher as _},
    sync::Arc,
};

use siphasher::sip::SipHasher13;

use super::{
    attributes::Attributes,
    client::{Client, Seed},
    limit::{Limit, NEVER, States},
    record::Counted,
    rule::Rule,
    shares::{Place, Request, Shared, Shares},
    table::Table,
    tally::Tally,
    verdict::{Cause, Refusal, Verdict},
};

/// A rule in force.
#[derive(Clone)]
pub(super) struct Active {
    pub(super) rule: Rule,
    pub(super) table: Arc<Table>,
    pub(super) tally: Arc<Tally>,
    /// Its name and what it counts by, as a number.
    pub(super) id: u64,
    /// Its limits as several servers share them. None if they cannot.
    pub(super) shared: Vec<Shared>,
}

impl Active {
    /// Puts a rule in force. `before` is the rule of the same name that was in force.
    pub(super) fn new(rule: Rule, table: Arc<Table>, before: Option<&Self>, seed: Seed) -> Self {
        let rates = |rule: &Rule| rule.limits().iter().map(Limit::rate).collect::<Vec<_>>();
        let tally = match before {
            Some(before) if rates(&before.rule) == rates(&rule) => Arc::clone(&before.tally),
            Some(before) => Arc::new(before.tally.with_other_limits()),
            None => Arc::default(),
        };
        Self { id: id(seed, &rule), shared: rule.shared(), table, tally, rule }
    }

    /// Asks the leases of a client about a request that its own limits have decided.
    pub(super) fn lease(
        &self,
        shares: &Shares,
        verdict: Verdict,
        states: &mut States,
        (client, cost, now, charges): (Client, u32, u64, bool),
        hash: impl FnOnce() -> Option<Client>,
    ) -> Verdict {
        let is_admitted = matches!(verdict, Verdict::Admit { .. });
        let used = &mut |number| self.rule.used(states, number, now);
        // A request that costs more than a limit is no demand.
        let charges = charges && !matches!(verdict, Verdict::Refuse { wait: NEVER, .. });
        let request = Request { cost, now, is_admitted, charges, used };
        match (verdict, shares.decide(self.place(client), &self.shared, request, hash)) {
            (Verdict::Admit { after, charged }, Ok(latest)) => Verdict::Admit { after: after.max(latest), charged },
            (Verdict::Admit { .. }, Err((limit, wait))) => {
                Verdict::Refuse { refusal: Refusal { limit, cause: Cause::Share }, wait }
            }
            (refused @ Verdict::Refuse { .. }, _) => refused,
        }
    }

    pub(super) fn counted<'a>(&'a self, client: Client, attributes: &'a dyn Attributes) -> Counted<'a> {
        Counted { rule: &self.rule, tally: &self.tally, id: self.id, client, attributes }
    }

    pub(super) fn place(&self, client: Client) -> Place {
        (self.id, client)
    }
}

/// Returns a number for the name of a rule and everything that tells its clients apart.
fn id(Seed(first, second): Seed, rule: &Rule) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(first, second);
    (rule.name(), rule.attributes(), rule.ipv6_prefix()).hash(&mut hasher);
    hasher.finish()
}
