//! The limiter: asks all rules that count a request, and charges all of them or none.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use smallvec::SmallVec;

use super::{
    active::Active,
    attributes::Attributes,
    client::{self, Client, Seed},
    decision::{Decision, Usage},
    limit::NEVER,
    record::Record,
    rule::Rule,
    shares::{Due, Shares},
    table::Table,
    tally::Tally,
    verdict::{Charged, Part, Verdict},
};

/// The rules of a service, and what their clients have used.
///
/// It does no I/O and reads no clock. Any number of threads may ask it at the same time.
pub struct Limiter {
    rules: Vec<Active>,
    seed: Seed,
    has_room: AtomicBool,
    shares: Option<Arc<Shares>>,
}

/// What a request was charged, so that it can be given back.
struct Entry<'a, 'r, A: ?Sized> {
    active: &'a Active,
    attributes: &'r A,
    client: Client,
    charged: Charged,
    cost: u32,
}

/// What all requests were charged that are decided together.
type Ledger<'a, 'r, A> = SmallVec<[Entry<'a, 'r, A>; 4]>;

impl Limiter {
    /// Creates a limiter without clients. `seed` must be random and secret, so that callers cannot choose clients that
    /// share a count.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>, seed: [u64; 2]) -> Self {
        let [first, second] = seed;
        let seed = Seed(first, second);
        let active = |rule: Rule| {
            let table = Arc::new(Table::new(&rule));
            Active::new(rule, table, None, seed)
        };
        Self { rules: rules.into_iter().map(active).collect(), seed, has_room: AtomicBool::new(false), shares: None }
    }

    /// Returns a limiter with other rules from now on. Clients keep what they have used under rules that keep their names
    /// and what they count by. Both limiters share these counts, so one can take the place of the other without a pause.
    #[must_use]
    pub fn with_rules(&self, rules: impl IntoIterator<Item = Rule>, now: u64) -> Self {
        let active = |rule: Rule| {
            let counts_alike = |this: &&Active| {
                let (old, new) = (&this.rule, &rule);
                (old.name(), old.attributes(), old.ipv6_prefix()) == (new.name(), new.attributes(), new.ipv6_prefix())
            };
            let table = match self.rules.iter().find(counts_alike) {
                Some(old) => {
                    if rule.has_other_rates(&old.rule) {
                        old.table.change(|states| rule.convert(&old.rule, states, now));
                    }
                    if rule.clients() == old.rule.clients() {
                        Arc::clone(&old.table)
                    } else {
                        let table = Table::new(&rule);
                        table.copy(&old.table);
                        Arc::new(table)
                    }
                }
                None => Arc::new(Table::new(&rule)),
            };
            let before = self.rules.iter().find(|old| old.rule.name() == rule.name());
            Active::new(rule, table, before, self.seed)
        };
        Self {
            rules: rules.into_iter().map(active).collect(),
            seed: self.seed,
            has_room: AtomicBool::new(self.has_room.load(Ordering::Relaxed)),
            shares: self.shares.clone(),
        }
    }

    /// Returns a limiter that shares its limits with other servers from now on, or no longer does. Both limiters share all
    /// counts.
    #[must_use]
    pub fn with_shares(&self, shares: Option<Arc<Shares>>) -> Self {
        let has_room = AtomicBool::new(self.has_room.load(Ordering::Relaxed));
        Self { rules: self.rules.clone(), seed: self.seed, has_room, shares }
    }

    /// Returns what it shares with other servers.
    #[must_use]
    pub fn shares(&self) -> Option<&Arc<Shares>> {
        self.shares.as_ref()
    }

    /// Returns the name of the rule that a report is about. None if it is no longer in force.
    #[must_use]
    pub fn rule_of(&self, due: &Due) -> Option<&str> {
        self.rules.iter().find(|active| active.id == due.rule()).map(|active| active.rule.name())
    }

    /// Says whether the caller has room for requests above elastic limits.
    pub fn set_room(&self, has_room: bool) {
        self.has_room.store(has_room, Ordering::Relaxed);
    }

    /// Decides a request that counts as `cost` requests, at `now`: nanoseconds of a clock that does not go back. Windows
    /// begin at its multiples, so a clock that began at the Unix epoch has windows that begin with minutes and hours.
    ///
    /// All rules that count the request must admit it. One that is refused is charged nowhere. A request that costs
    /// more than a limit is always refused. A cost of 0 is decided as 1, and charges nothing.
    pub fn check(&self, attributes: &(impl Attributes + ?Sized), cost: u32, now: u64) -> Decision<'_> {
        self.check_and_record(attributes, cost, now, &mut ())
    }

    /// Decides a request like [`Self::check`], and tells `record` which rules have counted it. A request that costs
    /// nothing is not counted.
    pub fn check_and_record(
        &self,
        attributes: &(impl Attributes + ?Sized),
        cost: u32,
        now: u64,
        record: &mut impl Record,
    ) -> Decision<'_> {
        let mut ledger = Ledger::new();
        let decision = self.ask(attributes, (cost, true), now, &mut ledger, record);
        self.settle(&ledger, decision.is_allowed, now, record);
        decision
    }

    /// Decides several requests: all of them are allowed, or none is charged. Once one is refused, the decisions about
    /// those after it say what they would be.
    pub fn check_all<A: Attributes>(&self, requests: &[(A, u32)], now: u64) -> Vec<Decision<'_>> {
        self.check_all_and_record(requests, now, &mut ())
    }

    /// Decides several requests like [`Self::check_all`], and tells `record` which rules have counted them. Of a batch
    /// that is not charged, it hears only refusals.
    pub fn check_all_and_record<A: Attributes>(
        &self,
        requests: &[(A, u32)],
        now: u64,
        record: &mut impl Record,
    ) -> Vec<Decision<'_>> {
        let (mut ledger, mut is_allowed) = (Ledger::new(), true);
        let mut decisions = Vec::with_capacity(requests.len());
        for (attributes, cost) in requests {
            let decision = self.ask(attributes, (*cost, is_allowed), now, &mut ledger, record);
            is_allowed &= decision.is_allowed;
            decisions.push(decision);
        }
        self.settle(&ledger, is_allowed, now, record);
        decisions
    }

    /// Asks all rules. Those that admit are charged until one refuses, if the request may be charged at all.
    fn ask<'a, 'r, A: Attributes + ?Sized>(
        &'a self,
        attributes: &'r A,
        (cost, may_charge): (u32, bool),
        now: u64,
        ledger: &mut Ledger<'a, 'r, A>,
        record: &mut impl Record,
    ) -> Decision<'a> {
        let has_room = self.has_room.load(Ordering::Relaxed);
        let nothing = Duration::ZERO;
        let mut decision =
            Decision { is_allowed: true, limit: None, after: nothing, is_above: false, shadow: None, stop: None };
        let mut longest = None;
        for active in &self.rules {
            let Active { rule, table, .. } = active;
            if !rule.fits(attributes) {
                continue;
            }
            let Some(client) = client::client(self.seed, rule.attributes(), rule.ipv6_prefix(), attributes) else {
                continue;
            };
            // Once a rule has refused, the others only tell whether the client has to wait longer for them.
            let charges = may_charge && decision.is_allowed && cost > 0;
            let (verdict, tightest) = table.with(rule, client, now, |states| {
                let mut verdict = rule.ask(states, now, cost.max(1), has_room);
                if let Some(shares) = &self.shares {
                    let hash = || client::client(shares.seed, rule.attributes(), rule.ipv6_prefix(), attributes);
                    verdict = active.lease(shares, verdict, states, (client, cost, now, charges), hash);
                }
                let number = match &verdict {
                    Verdict::Refuse { refusal, .. } => Some(refusal.limit),
                    Verdict::Admit { charged, .. } => {
                        if charges {
                            rule.charge(states, charged, now, cost);
                        }
                        None
                    }
                };
                let (number, remaining, end) = rule.usage(states, number, now);
                // A share can refuse what the limit of this server admits.
                let most =
                    if matches!(verdict, Verdict::Refuse { .. }) { u64::from(cost.max(1) - 1) } else { remaining };
                (verdict, (number, remaining.min(most), end))
            });
            let usage = |wait| {
                let (number, remaining, end) = tightest;
                let limit = rule.limits().get(number)?;
                let wait = (wait != NEVER).then(|| Duration::from_nanos(wait));
                Some(Usage { rule, limit, remaining, reset: Duration::from_nanos(end), wait })
            };
            if let Verdict::Refuse { refusal, .. } = verdict
                && cost > 0
            {
                record.refused(&active.counted(client, &attributes), refusal);
            }
            match verdict {
                Verdict::Admit { .. } if !decision.is_allowed => {}
                Verdict::Admit { after, charged } => {
                    // A rule in shadow changes nothing for the caller.
                    if !rule.is_shadow() {
                        decision.after = decision.after.max(Duration::from_nanos(after));
                        decision.is_above |= charged.iter().any(|part| *part != Part::Limit);
                        if decision.limit.is_none_or(|least| tightest.1 < least.remaining) {
                            decision.limit = usage(0);
                        }
                    }
                    if charges {
                        ledger.push(Entry { active, attributes, client, charged, cost });
                    }
                }
                Verdict::Refuse { .. } if rule.is_shadow() => decision.shadow = decision.shadow.or(Some(rule)),
                Verdict::Refuse { wait, .. } => {
                    if longest.is_none_or(|longest| wait > longest) {
                        (longest, decision.limit) = (Some(wait), usage(wait));
                    }
                    decision.is_allowed = false;
                    // A request that costs nothing asks what would be.
                    if rule.stops() && cost > 0 {
                        decision.stop = decision.stop.or(Some(rule));
                    }
                }
            }
        }
        decision
    }

    /// Tells what was charged if all requests are allowed, and gives it back otherwise.
    fn settle<A: Attributes + ?Sized>(
        &self,
        ledger: &Ledger<'_, '_, A>,
        is_allowed: bool,
        now: u64,
        record: &mut impl Record,
    ) {
        for Entry { active, attributes, client, charged, cost } in ledger {
            if is_allowed {
                record.admitted(&active.counted(*client, attributes), *cost);
                continue;
            }
            let Active { rule, table, shared, .. } = active;
            table.with(rule, *client, now, |states| {
                rule.give_back(states, charged, now, *cost);
                if let Some(shares) = &self.shares {
                    shares.give_back(active.place(*client), shared, now, *cost);
                }
            });
        }
    }

    /// Forgets clients whose counts say nothing any more. It looks at all clients, so call it rarely: once per minute.
    pub fn forget(&self, now: u64) {
        self.rules.iter().for_each(|active| active.table.forget(&active.rule, now));
    }

    /// Returns all rules, each with its number of clients, how many clients had to go for others, and how often it has
    /// decided.
    pub fn rules(&self) -> impl Iterator<Item = (&Rule, usize, u64, &Tally)> {
        self.rules.iter().map(|Active { rule, table, tally, .. }| (rule, table.len(), table.recycled(), &**tally))
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rules.iter().map(|active| active.rule.name())).finish()
    }
}
