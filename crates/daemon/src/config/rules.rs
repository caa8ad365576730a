//! Rules: the tables `[default]`, `[service.NAME]` and `[[rule]]`.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use ratelimit_base::{
    tables::table::{Place, Table, Value},
    text::{prefix::Prefix, service::ServiceName},
};
use ratelimit_common::{
    identity::service::Service,
    limits::policy::{MOST_COST, Policy},
    rules::comment::Comment,
};
use ratelimit_dataplane::rules::{
    spec::RuleSpec,
    target::{Sources, Target},
};

use super::{policies::Policies, space::SpaceNeeded};

/// A rule of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The packets that it applies to.
    pub target: Target,
    /// The limit or verdict, which many rules can share.
    pub spec: Arc<RuleSpec>,
    /// The moment when it expires.
    pub until: Option<SystemTime>,
    /// Its comment, which rules of the same table share.
    pub comment: Option<Arc<Comment>>,
}

/// Keys of a rule besides those of its policy.
const KEYS: [&str; 5] = ["source", "sources", "service", "until", "comment"];

/// The rules of a file so far.
#[derive(Debug)]
pub(super) struct Rules<'p> {
    policies: &'p Policies,
    planned: Vec<Planned>,
    /// The place of the rule for each target.
    places: HashMap<Target, usize>,
    space: SpaceNeeded,
}

impl<'p> Rules<'p> {
    pub(super) fn new(policies: &'p Policies) -> Self {
        Self { policies, planned: Vec::new(), places: HashMap::new(), space: SpaceNeeded::new() }
    }

    pub(super) fn done(self) -> Vec<Planned> {
        self.planned
    }

    /// Adds the limit of every source without another rule.
    pub(super) fn add_default(&mut self, service: Service, table: &Table<'_>, others: &[&str]) {
        let target = Target::DEFAULT.of(service);
        let (comment, others) = (comment(table), [others, &["comment"]].concat());
        let spec = self.policies.spec(table, &others, target);
        self.plan(target, spec, (None, comment), &table.place());
    }

    /// Adds the default limit of a service, if the table has one, and returns the cost of its packets.
    pub(super) fn add_service(&mut self, service: Service, table: &Table<'_>) -> Option<u32> {
        let cost = table.get("cost").and_then(cost);
        if let Some(problem) = self.space.add_service(service) {
            table.wrong(problem);
        }
        let has_default = table.each().any(|(key, _)| key.get_ref() != "cost");
        if has_default {
            self.add_default(service, table, &["cost"]);
        } else if table.get("cost").is_none() {
            table.wrong("the table is empty: add a limit or a cost");
        }
        cost
    }

    /// Adds a rule, for each of its sources.
    pub(super) fn add(&mut self, table: &Table<'_>) {
        let until = table.get("until").map(moment);
        let sources = sources(table);
        let comment = comment(table);
        let service = match table.get("service").map(Value::parse::<ServiceName>) {
            Some(None) => return,
            Some(Some(ServiceName(service))) => service,
            None => Service::Any,
        };
        let (Some(sources), false) = (sources, until == Some(None)) else { return };
        let until = until.flatten();
        for (sources, place) in sources {
            let target = Target { sources, service };
            if sources == Sources::Default && until.is_some() {
                table.wrong("a default cannot expire: remove until, or add rules for 0.0.0.0/0 and ::/0 instead");
                return;
            }
            let spec = self.policies.spec(table, &KEYS, target);
            let is_good = spec.is_some();
            self.plan(target, spec, (until, comment.clone()), &place);
            // The next source has the same problem.
            if !is_good {
                return;
            }
        }
    }

    /// Adds a rule *allow* for each prefix of the list at the top.
    pub(super) fn add_allowed(&mut self, list: Value<'_>) {
        for value in list.elements("addresses") {
            let Some(prefix) = value.parse::<Prefix>() else { continue };
            self.plan(Target::prefix(prefix), Some(Policy::ALLOWED.into()), (None, None), &value.place());
        }
    }

    fn plan(
        &mut self,
        target: Target,
        spec: Option<RuleSpec>,
        (until, comment): (Option<SystemTime>, Option<Arc<Comment>>),
        place: &Place<'_>,
    ) {
        if let Some(start) = self.places.insert(target, place.start()) {
            place.wrong(format!("{target} already has a rule, in line {}", place.line(start)));
        }
        // An expired rule needs no space.
        let lasting = spec.as_ref().filter(|_| until.is_none_or(|until| SystemTime::now() < until));
        if let Some(problem) = lasting.and_then(|spec| self.space.add(target, spec, self.policies.ipv6_prefix)) {
            place.wrong(problem);
        }
        self.planned.extend(spec.map(|spec| {
            let before = self.planned.last().filter(|before| *before.spec == spec);
            let spec = before.map_or_else(|| Arc::new(spec), |before| Arc::clone(&before.spec));
            Planned { target, spec, until, comment }
        }));
    }
}

/// Returns the sources of a rule with their places: its `source`, or each of its `sources`. A single source has the place
/// of the table.
fn sources<'a>(table: &Table<'a>) -> Option<Vec<(Sources, Place<'a>)>> {
    match (table.get("source"), table.get("sources")) {
        (Some(one), None) => Some(vec![(one.parse()?, table.place())]),
        (None, Some(list)) => {
            let values = list.elements("addresses");
            let sources: Vec<_> = values.iter().filter_map(|value| Some((value.parse()?, value.place()))).collect();
            (!values.is_empty() && sources.len() == values.len()).then_some(sources)
        }
        (Some(_), Some(list)) => {
            list.wrong("the rule has source, too: put all addresses into sources");
            None
        }
        (None, None) => {
            table.wrong("source is missing");
            None
        }
    }
}

/// Returns the comment in a table. An empty one is none.
fn comment(table: &Table<'_>) -> Option<Arc<Comment>> {
    let value = table.get("comment")?;
    let comment = Comment::new(value.text()?);
    comment
        .map_err(|error| value.wrong(error.to_string()))
        .ok()
        .filter(|comment| *comment != Comment::EMPTY)
        .map(Arc::new)
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
