//! What a good file says that has no effect on this host.

use std::time::SystemTime;

use ratelimit_base::{text::excerpt::escaped, unix_group::Group};
use ratelimit_daemon::{
    config::{Config, Interface, Planned, outranked},
    limit::short_burst,
};
use ratelimit_dataplane::attach::attachment::Mode;

use crate::cli::print::output::count;

/// Rules that a warning names.
const NAMED: usize = 5;

/// Returns a line for each.
pub(super) fn of(config: &Config, now: SystemTime) -> Vec<String> {
    let groups = [
        ("stops", config.stops.as_ref().and_then(|stops| stops.group.as_deref())),
        ("view", config.view.as_ref().and_then(|view| view.group.as_deref())),
    ];
    let of_bursts = short_bursts(config);
    let warnings = ended(config, now).into_iter().chain(groups.into_iter().filter_map(without_group)).chain(of_bursts);
    let warnings = warnings.chain(outranked::lines(&config.rules));
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

/// Returns a warning for the first limits of bytes whose burst holds no whole frame, where packets may be joined.
fn short_bursts(config: &Config) -> impl Iterator<Item = String> {
    let is_joined = |interface: &Interface| matches!(interface.mode, Some(Mode::Generic | Mode::Auto));
    let has_joined = config.interfaces.iter().any(is_joined);
    let rules = config.rules.iter().filter(move |_| has_joined);
    let warning = |rule: &Planned| Some(format!("{}: {}", rule.target, short_burst::where_joined(&rule.spec.policy)?));
    rules.filter_map(warning).take(NAMED)
}

/// Returns a warning if a table names a group that this host does not have.
pub(super) fn without_group((table, group): (&str, Option<&str>)) -> Option<String> {
    Group::named(group?).err().map(|error| format!("{table}: {error}"))
}
