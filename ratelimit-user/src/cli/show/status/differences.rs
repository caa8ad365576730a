//! What differs between an instance and the file of its daemon.

use anyhow::Result;
use ratelimit_common::rules::rule::{CONFIG, SSH};
use ratelimit_daemon::{controller::socket::request::FileState, limit::write};
use ratelimit_dataplane::{
    Instance,
    attach::attachment::Mode,
    lists::listing,
    program::values::{per_second, values},
    rules::list::{self, Listed},
};
use serde::Serialize;

use super::interface::Interface;

/// How many rules are named.
const NAMED: usize = 20;

/// One difference.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    /// The setting, the interface or the rule.
    pub(super) name: String,
    /// Its value in force.
    pub(super) running: String,
    /// Its value in the file.
    pub(super) file: String,
}

impl Difference {
    fn new(name: impl Into<String>, running: impl Into<String>, file: impl Into<String>) -> Self {
        Self { name: name.into(), running: running.into(), file: file.into() }
    }
}

/// Returns the differences, without interfaces that are not attached.
pub(super) fn differences(instance: &Instance, interfaces: &[Interface], state: &FileState) -> Result<Vec<Difference>> {
    let running = values(&instance.settings()?);
    let settings = state.settings.iter().filter_map(|(name, file)| {
        let running = running.get(name).filter(|running| *running != file)?;
        Some(Difference::new(name, running, file))
    });
    let mut found: Vec<Difference> = settings.collect();
    for interface in interfaces {
        found.extend(of_interface(interface, state));
    }
    found.extend(of_rules(instance, state)?);
    found.extend(of_lists(instance, state)?);
    Ok(found)
}

/// Returns the lists of the file that commands have replaced or deleted.
fn of_lists(instance: &Instance, state: &FileState) -> Result<Vec<Difference>> {
    let running = listing::all(&instance.tables)?;
    let difference = |name: &String| {
        let list = running.iter().find(|list| list.name == *name);
        if list.is_none() && state.unusable_lists.iter().any(|list| list.name == *name) {
            return None;
        }
        let by_command = if list.is_some() { "set by command" } else { "deleted by command" };
        let is_of_file = list.is_some_and(|list| list.origin == CONFIG);
        (!is_of_file).then(|| Difference::new(format!("the list {name}"), by_command, "the list of the file"))
    };
    Ok(state.lists.iter().filter_map(difference).collect())
}

/// Returns the rules of the file that commands have replaced or deleted.
fn of_rules(instance: &Instance, state: &FileState) -> Result<Vec<Difference>> {
    let in_force = list::count_lasting(&instance.tables, CONFIG)?;
    if in_force >= state.rules {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (target, spec) in &state.few_rules {
        let running = target.parse().ok().map(|target| list::get(&instance.tables, target)).transpose()?.flatten();
        if running.as_ref().and_then(Listed::lasting).is_some_and(|rule| rule.origin == CONFIG) {
            continue;
        }
        let instead = running.as_ref().map_or_else(|| "deleted by command".to_owned(), in_words);
        found.push(Difference::new(format!("the rule for {target}"), instead, spec));
        if found.len() == NAMED {
            break;
        }
    }
    if found.len() < state.rules - in_force {
        found.push(Difference::new("the number of its rules in force", in_force.to_string(), state.rules.to_string()));
    }
    Ok(found)
}

/// Returns a rule that the file does not have, with its origin.
fn in_words(rule: &Listed) -> String {
    let by = if rule.origin == SSH { "for an SSH session" } else { "by command" };
    format!("{} (set {by})", write::spec(&rule.spec))
}

fn of_interface(interface: &Interface, state: &FileState) -> Vec<Difference> {
    let Interface { name, mode: Some(mode), capacity, shadow, origin, .. } = interface else { return Vec::new() };
    let Some(listed) = state.interfaces.iter().find(|listed| listed.name == *name) else {
        let owner = if origin.is_some() { "by an earlier file" } else { "by command" };
        return vec![Difference::new(name, format!("attached {owner}"), "listed")];
    };
    let mut found = Vec::new();
    let (running, file) = (capacity.unwrap_or(0), listed.capacity.unwrap_or(0));
    if running != file {
        found.push(Difference::new(format!("the capacity of {name}"), per_second(running), per_second(file)));
    }
    let [running, file] = [*shadow, listed.shadow.unwrap_or(false)].map(|is_on| if is_on { "on" } else { "off" });
    if running != file {
        found.push(Difference::new(format!("shadow of {name}"), running, file));
    }
    let requested = match listed.mode {
        Some(Mode::Native) => "native",
        Some(Mode::Generic) => "generic",
        Some(Mode::Auto) | None => mode,
    };
    if *mode != requested {
        found.push(Difference::new(format!("the mode of {name}"), *mode, requested));
    }
    found
}
