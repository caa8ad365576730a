//! What a good file says that has no effect on this host.

use std::time::SystemTime;

use ratelimit_base::{text::excerpt::escaped, unix_group::Group};
use ratelimit_daemon::config::Config;

use crate::cli::print::output::count;

/// Rules that a warning names.
const NAMED: usize = 5;

/// Returns a line for each.
pub(super) fn of(config: &Config, now: SystemTime) -> Vec<String> {
    let groups = [
        ("stops", config.stops.as_ref().and_then(|stops| stops.group.as_deref())),
        ("view", config.view.as_ref().and_then(|view| view.group.as_deref())),
    ];
    let warnings = ended(config, now).into_iter().chain(groups.into_iter().filter_map(without_group));
    warnings.map(|warning| escaped(&warning)).collect()
}

fn ended(config: &Config, now: SystemTime) -> Option<String> {
    let rules: Vec<_> = config.rules.iter().filter(|rule| rule.until.is_some_and(|until| until <= now)).collect();
    let named: Vec<_> = rules.iter().take(NAMED).map(|rule| rule.target.to_string()).collect();
    let more = match rules.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!rules.is_empty()).then(|| {
        let (rules, named) = (count(rules.len(), "rule"), named.join(", "));
        format!("`until` is over for {rules}, without effect: {named}{more}")
    })
}

/// Returns a warning if a table names a group that this host does not have.
pub(super) fn without_group((table, group): (&str, Option<&str>)) -> Option<String> {
    Group::named(group?).err().map(|error| format!("{table}: {error}"))
}
