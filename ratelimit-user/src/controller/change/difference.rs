//! What has to change for a file's rules to be in force. What others have set stays.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use ratelimit_common::rules::rule::{BANNED, CONFIG, NEVER};

use crate::{
    config::Planned,
    dataplane::{
        rules::{
            batch::{Change, Wish},
            list::Listed,
            spec::Terms,
            target::Target,
        },
        sys::host,
    },
};

/// By how much an end may be off and be the same: the wall clock is adjusted now and then, and the monotonic one is not.
const SAME_END: Duration = Duration::from_secs(2);

/// The change, and what it comes to.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// For [`Instance::change`](crate::dataplane::Instance::change).
    pub(crate) change: Change,
    /// Rules of the file that are as they were.
    pub(crate) unchanged: usize,
    /// Rules of the file that are not in force, because somebody has set another by command.
    pub(crate) overruled: Vec<Target>,
}

/// What has to change of these `running` rules for the `planned` ones to be in force at this time.
#[must_use]
pub(crate) fn difference(running: &[Listed], planned: &[Planned], now: SystemTime) -> Difference {
    let mut rules: HashMap<Target, &Listed> =
        running.iter().filter(|rule| rule.origin != BANNED).map(|rule| (rule.target, rule)).collect();
    let mut found = Difference::default();
    let mut places = HashMap::new();
    for plan in planned {
        let left = match plan.until.map(|until| until.duration_since(now)) {
            // It has ended.
            Some(Err(_)) => continue,
            Some(Ok(left)) => Some(left),
            None => None,
        };
        match rules.remove(&plan.target) {
            Some(rule) if rule.terms == plan.terms && is_same_end(rule.expires_in, left) => found.unchanged += 1,
            Some(rule) if rule.origin != CONFIG => found.overruled.push(plan.target),
            _ => found.wish(plan, left, &mut places),
        }
    }
    let gone = rules.values().filter(|rule| rule.origin == CONFIG);
    found.change.deleted = gone.map(|rule| rule.target).collect();
    found.change.deleted.sort_unstable();
    found
}

impl Difference {
    /// `places` says where terms are among those of the change: many rules share few.
    fn wish<'p>(&mut self, plan: &'p Planned, left: Option<Duration>, places: &mut HashMap<&'p Terms, usize>) {
        let expires =
            left.map_or(NEVER, |left| host::now().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(NEVER)));
        let known = &mut self.change.terms;
        let terms = *places.entry(&plan.terms).or_insert_with(|| {
            known.push(Terms::clone(&plan.terms));
            known.len() - 1
        });
        self.change.wishes.push(Wish { target: plan.target, terms, expires, origin: CONFIG });
    }
}

fn is_same_end(running: Option<Duration>, planned: Option<Duration>) -> bool {
    match (running, planned) {
        (None, None) => true,
        (Some(running), Some(planned)) => running.abs_diff(planned) <= SAME_END,
        _ => false,
    }
}
