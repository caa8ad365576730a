//! The rules of a configuration file, as they were in force when a capture began.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ratelimit_common::rules::rule::{CONFIG, NEVER};
use ratelimit_daemon::{config::Config, controller::change::lists};
use ratelimit_dataplane::{
    lists::change::ListChange,
    rules::{batch::Change, spec::RuleSpec},
    trial::Rules,
};

/// Returns the rules of a file at a time in nanoseconds since 1970, from which their ends count.
pub(super) fn at(config: &Config, wall: u64, capacity: u64) -> Rules {
    let (mut change, now) = (Change::default(), UNIX_EPOCH + Duration::from_nanos(wall));
    let mut places: HashMap<&RuleSpec, usize> = HashMap::new();
    for plan in &config.rules {
        let Some(expires) = end(plan.until, now) else { continue };
        let specs = &mut change.specs;
        let spec = *places.entry(&plan.spec).or_insert_with(|| {
            specs.push(RuleSpec::clone(&plan.spec));
            specs.len() - 1
        });
        change.add(plan.target, spec, expires, CONFIG, None);
    }
    let lists = config.lists.iter().filter_map(lists::requested).collect();
    Rules { change, lists: ListChange { set: lists, deleted: Vec::new() }, costs: config.costs.clone(), capacity }
}

/// Returns the nanoseconds from `now` to the end of a rule. None if it has ended.
fn end(until: Option<SystemTime>, now: SystemTime) -> Option<u64> {
    let Some(until) = until else { return Some(NEVER) };
    let left = until.duration_since(now).ok()?;
    Some(u64::try_from(left.as_nanos()).unwrap_or(NEVER))
}
