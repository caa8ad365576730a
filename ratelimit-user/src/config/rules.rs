//! Rules: who, which of their packets, what is done, until when.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use ratelimit_common::{identity::service::Service, limits::policy::MOST_COST};

use super::{
    policies::Policies,
    room::Room,
    table::{Table, Value},
};
use crate::{
    dataplane::rules::{
        spec::Terms,
        target::{Sources, Target},
    },
    service::ServiceName,
};

/// A rule that a file wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What it is about.
    pub target: Target,
    /// What is done. Many rules share it.
    pub terms: Arc<Terms>,
    /// When it ends.
    pub until: Option<SystemTime>,
}

/// Keys of a rule besides its policy.
const KEYS: [&str; 4] = ["source", "service", "until", "comment"];

/// The rules of a file so far.
#[derive(Debug)]
pub(super) struct Rules<'p> {
    policies: &'p Policies,
    planned: Vec<Planned>,
    /// Where the rule for a target stands.
    places: HashMap<Target, usize>,
    room: Room,
}

impl<'p> Rules<'p> {
    pub(super) fn new(policies: &'p Policies) -> Self {
        Self { policies, planned: Vec::new(), places: HashMap::new(), room: Room::new() }
    }

    pub(super) fn done(self) -> Vec<Planned> {
        self.planned
    }

    /// Adds the limit of every source that no other rule concerns.
    pub(super) fn add_default(&mut self, service: Service, table: &Table<'_>, others: &[&str]) {
        let target = Target::DEFAULT.of(service);
        let terms = self.policies.terms(table, others, target);
        self.plan(target, terms, None, table);
    }

    /// Adds the default of a service, if it says anything of that, and returns what its packets count as.
    pub(super) fn add_service(&mut self, service: Service, table: &Table<'_>) -> Option<u32> {
        let cost = table.get("cost").and_then(cost);
        if let Some(problem) = self.room.add_service(service) {
            table.wrong(problem);
        }
        let has_default = table.each().any(|(key, _)| key.get_ref() != "cost");
        if has_default {
            self.add_default(service, table, &["cost"]);
        } else if table.get("cost").is_none() {
            table.wrong("says nothing: give a limit, or a cost");
        }
        cost
    }

    /// Adds a rule.
    pub(super) fn add(&mut self, table: &Table<'_>) {
        let Some(source) = table.get("source") else {
            table.wrong("source is missing");
            return;
        };
        let (source, until) = (source.parse::<Sources>(), table.get("until").map(moment));
        if let Some(comment) = table.get("comment") {
            comment.text();
        }
        let service = match table.get("service").map(Value::parse::<ServiceName>) {
            Some(None) => return,
            Some(Some(ServiceName(service))) => service,
            None => Service::Any,
        };
        let (Some(sources), false) = (source, until == Some(None)) else { return };
        let target = Target { sources, service };
        let until = until.flatten();
        if sources == Sources::Default && until.is_some() {
            table.wrong("a default cannot end by itself: leave until away, or limit 0.0.0.0/0 and ::/0");
            return;
        }
        let terms = self.policies.terms(table, &KEYS, target);
        self.plan(target, terms, until, table);
    }

    fn plan(&mut self, target: Target, terms: Option<Terms>, until: Option<SystemTime>, table: &Table<'_>) {
        if let Some(place) = self.places.insert(target, table.span.start) {
            table.wrong(format!("{target} has a rule already, in line {}", table.line(place)));
        }
        // One that has ended takes no room.
        let lasting = terms.as_ref().filter(|_| until.is_none_or(|until| SystemTime::now() < until));
        if let Some(problem) = lasting.and_then(|terms| self.room.add(target, terms, self.policies.ipv6_prefix)) {
            table.wrong(problem);
        }
        self.planned.extend(terms.map(|terms| {
            let before = self.planned.last().filter(|before| *before.terms == terms);
            let terms = before.map_or_else(|| Arc::new(terms), |before| Arc::clone(&before.terms));
            Planned { target, terms, until }
        }));
    }
}

fn cost(value: Value<'_>) -> Option<u32> {
    let words = value.words()?;
    let cost = words.first().and_then(|word| word.parse().ok()).filter(|cost| (1..=MOST_COST).contains(cost));
    if cost.is_none() {
        value.wrong(format!("expected a number from 1 to {MOST_COST}"));
    }
    cost
}

fn moment(value: Value<'_>) -> Option<SystemTime> {
    let datetime = value.datetime()?;
    let moment = datetime.to_string().parse::<jiff::Timestamp>();
    if moment.is_err() {
        value.wrong("expected a date, a time and its zone, such as 2030-01-31T12:00:00Z");
    }
    moment.ok().map(SystemTime::from)
}
