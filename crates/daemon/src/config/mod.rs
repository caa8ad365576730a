//! The configuration file. This folder turns its text into a [`Config`] that is valid as a whole, or into a list of all
//! its problems. How a file is put in force belongs to `controller`.
//!
//! A file is read part by part: first everything except rules, then rules in groups of some hundred. The tree of a
//! hundred thousand rules would take 200 MB. If anything is wrong, the file is read again as a whole, so that every
//! problem has its place in the file.

pub mod daemon;
pub mod listed;
pub mod lists;
pub mod outranked;
mod parts;
mod policies;
mod rules;
pub mod save;
mod save_lists;
mod saved;
pub mod shared;
mod space;

use std::{
    collections::HashMap,
    fs, iter,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use ratelimit_base::{
    tables::{
        files,
        problem::{ConfigError, Problem, syntax},
        switch::Switch,
        table::{Page, Table},
    },
    text::{excerpt::escaped, service::ServiceName},
};
use ratelimit_common::{identity::service::Service, maps::control::IPV6_PREFIX_DEFAULT};
use ratelimit_dataplane::{attach::attachment::Mode, program::loader::RequestedSettings};
use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use self::{
    daemon::{
        crowdsec::{self, CrowdSec},
        fleet::{self, Fleet},
        metrics::{self, Metrics},
        state::{self, StateFile},
        stops::{self, Stops},
        view::{self, View},
    },
    parts::Parts,
    policies::Policies,
};
pub use self::{lists::PlannedList, rules::Planned};
use crate::settings::{RateOrOff, SettingsArguments};

/// Checks the tables about requests, which only `ratelimit serve` reads, and returns the number of their rules.
pub type RequestTables = fn(&Table<'_>) -> usize;

/// The content of a file.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Interfaces to attach to.
    pub interfaces: Vec<Interface>,
    /// Settings of the program.
    pub requested: RequestedSettings,
    /// Rules, including the defaults. No two have the same target.
    pub rules: Vec<Planned>,
    /// Named lists with their entries.
    pub lists: Vec<PlannedList>,
    /// What a packet of a service counts as.
    pub costs: Vec<(Service, u32)>,
    /// Which metrics the daemon serves, and where.
    pub metrics: Metrics,
    /// The fleet that the host belongs to.
    pub fleet: Option<Fleet>,
    /// How many rules for requests it has.
    pub requests: usize,
    /// Where the daemon keeps debts and bans. None if it does not.
    pub state: Option<StateFile>,
    /// Where applications ask to stop clients. None if they cannot.
    pub stops: Option<Stops>,
    /// Whose decisions the daemon puts in force.
    pub crowdsec: Option<CrowdSec>,
    /// Where other programs read what the daemon shows.
    pub view: Option<View>,
    /// The file itself, and those that it names.
    pub files: Vec<PathBuf>,
}

/// An interface to attach to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Where the program runs. None keeps the mode, or is native for a new interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Packets per second that it can take in total, 0 for none. None keeps the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// Whether its packets pass in shadow, although those of others may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<bool>,
    /// Whether the daemon waits for it while it does not exist. Otherwise the file is refused.
    pub wait: bool,
}

/// The modes by their names in a file.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeName {
    Auto,
    Native,
    Generic,
}

/// The options of one interface.
#[derive(Debug, clap::Args)]
struct InterfaceOptions {
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    #[arg(long)]
    capacity: Option<RateOrOff>,
    #[arg(long, value_enum)]
    shadow: Option<Switch>,
    #[arg(long, value_enum)]
    wait: Option<Switch>,
}

/// The problem of an empty file. A file that is being written can be empty, and must not remove every rule.
const EMPTY: &str = "the file is empty: write interfaces = [] to attach to nothing";

/// The longest name of an interface, in bytes.
const INTERFACE_NAME: usize = 15;

/// Reads a file.
///
/// # Errors
///
/// Fails with all problems of the file.
pub fn read(path: &Path, requests: RequestTables) -> Result<Config, ConfigError> {
    let text = fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
    let config = parse(&text, requests).and_then(|config| match &config.state {
        Some(state) if state.is(path) => Err(vec![state::own_file(&text)]),
        _ => Ok(Config { files: files_of(path, &text), ..config }),
    });
    config.map_err(|problems| ConfigError::Wrong { path: path.to_owned(), problems })
}

/// Returns a file with this text, and those that it names.
fn files_of(path: &Path, text: &str) -> Vec<PathBuf> {
    iter::once(path.to_owned()).chain(files::named(&Parts::of(text).others)).collect()
}

/// Reads the text of a file, and the token file that it names.
///
/// # Errors
///
/// Fails with all problems, in the order of the text. Of errors of syntax, it is only the first.
pub fn parse(text: &str, requests: RequestTables) -> Result<Config, Vec<Problem>> {
    // Problems are reported with their places in the whole text.
    in_parts(text, requests).map_or_else(|| whole(text, requests), Ok)
}

fn whole(text: &str, requests: RequestTables) -> Result<Config, Vec<Problem>> {
    let (entries, errors) = DeTable::parse_recoverable(text);
    let page = Page::new(text);
    // Later errors of syntax often follow from the first. They are not in the order of the text.
    let place = |error: &&toml::de::Error| error.span().map_or(0, |span| span.start);
    if let Some(first) = errors.iter().min_by_key(place) {
        let is_open = errors.iter().any(|error| error.message().starts_with("unclosed array,"));
        let has_hint = is_open && first.message().starts_with("missing comma between array elements");
        let message = if has_hint { ", or `]` is missing before this" } else { "" };
        page.wrong(first.span().unwrap_or_default(), format!("{}{message}", syntax(text, first)));
    }
    let mut config = Config::default();
    if errors.is_empty() && entries.get_ref().is_empty() {
        page.wrong(0..0, EMPTY);
    } else if errors.is_empty() {
        let top = Table::new(&page, 0..0, entries.get_ref());
        config = read_top(&page, &top, requests, &mut |_| {});
    }
    let problems = page.problems();
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

/// Reads a file part by part. Returns None if anything is wrong, or if rules are written in another way.
fn in_parts(text: &str, requests: RequestTables) -> Option<Config> {
    let Parts { others, rules } = Parts::of(text);
    let (entries, errors) = DeTable::parse_recoverable(&others);
    let is_empty = entries.get_ref().is_empty() && rules.is_empty();
    if !errors.is_empty() || is_empty || entries.get_ref().contains_key("rule") {
        return None;
    }
    let page = Page::new(&others);
    let mut is_good = true;
    let top = Table::new(&page, 0..0, entries.get_ref());
    let config = read_top(&page, &top, requests, &mut |into| {
        is_good = rules.iter().all(|part| add_rules(text.get(part.clone()).unwrap_or_default(), into));
    });
    (is_good && page.problems().is_empty()).then_some(config)
}

/// Adds the rules of a part. Returns whether it has no problem.
fn add_rules(text: &str, into: &mut rules::Rules<'_>) -> bool {
    let (entries, errors) = DeTable::parse_recoverable(text);
    let page = Page::new(text);
    let top = Table::new(&page, 0..0, entries.get_ref());
    top.expect_keys(&["rule"], &[]);
    top.get("rule").map(|value| value.tables("rule")).unwrap_or_default().iter().for_each(|table| into.add(table));
    errors.is_empty() && page.problems().is_empty()
}

/// Reads everything at the top level. `more` adds rules from other parts.
fn read_top(
    page: &Page<'_>,
    top: &Table<'_>,
    requests: RequestTables,
    more: &mut dyn FnMut(&mut rules::Rules<'_>),
) -> Config {
    top.expect_keys(&ratelimit_base::tables::table::TOP, &[]);
    let (interfaces, metrics, state) = (interfaces(page, top), metrics::read(top), state::read(top));
    let mut config = Config {
        interfaces,
        metrics,
        state,
        stops: stops::read(top),
        crowdsec: crowdsec::read(top),
        view: view::read(top),
        ..Config::default()
    };
    if let Some(table) = top.get("settings").and_then(ratelimit_base::tables::table::Value::table) {
        match ratelimit_base::tables::options::read::<SettingsArguments>(&table, &[])
            .map(|settings| settings.requested())
        {
            Some(Ok(requested)) => config.requested = requested,
            Some(Err(error)) => table.wrong(ratelimit_base::tables::options::in_file(&error.to_string())),
            None => {}
        }
    }
    config.requests = requests(top);
    config.fleet = fleet::read(top);
    config.requested.leases = config.fleet.as_ref().is_some_and(Fleet::takes_shares).then_some(true);
    config.requested.divide = config.fleet.as_ref().is_some_and(Fleet::divides_bursts).then_some(true);
    let has_capacity =
        config.interfaces.iter().any(|interface| interface.capacity.is_some_and(|capacity| capacity != 0));
    let ipv6_prefix = config.requested.ipv6_prefix.unwrap_or(IPV6_PREFIX_DEFAULT) as u8;
    let policies = Policies::read(top, ipv6_prefix, has_capacity);
    config.lists = lists::read(top, &policies);
    let mut rules = rules::Rules::new(&policies);
    if let Some(table) = top.get("default").and_then(ratelimit_base::tables::table::Value::table) {
        rules.add_default(Service::Any, &table, &[]);
    }
    let mut services = HashMap::new();
    for (key, value) in
        top.get("service").and_then(ratelimit_base::tables::table::Value::table).iter().flat_map(Table::each)
    {
        let Some(table) = value.table() else { continue };
        match key.get_ref().parse::<ServiceName>() {
            Ok(ServiceName(service)) => {
                if let Some(other) = services.insert(service, key.get_ref()) {
                    page.wrong(key.span(), format!("the same service as {other}: put everything into one table"));
                }
                config.costs.extend(rules.add_service(service, &table).map(|cost| (service, cost)));
            }
            Err(error) => page.wrong(key.span(), error.to_string()),
        }
    }
    if let Some(list) = top.get("allow") {
        rules.add_allowed(list);
    }
    top.get("rule").map(|value| value.tables("rule")).unwrap_or_default().iter().for_each(|table| rules.add(table));
    more(&mut rules);
    config.rules = rules.done();
    config
}

/// Returns the interfaces, each with the keys of `[interface.NAME]`.
fn interfaces(page: &Page<'_>, top: &Table<'_>) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    if let Some(names) = top.get("interfaces") {
        for (name, value) in names.words().unwrap_or_default().iter().zip(names.values()) {
            if !is_interface_name(name) {
                value.wrong("no interface has such a name: expected 1 to 15 bytes without `/`, `:` and spaces");
            }
            // As the names of interfaces are shown everywhere.
            let name = escaped(name);
            if interfaces.iter().any(|interface| interface.name == name) {
                names.wrong(format!("{name} is listed twice"));
            }
            interfaces.push(Interface { name, mode: None, capacity: None, shadow: None, wait: true });
        }
    }
    let each = top
        .get("interface")
        .and_then(|value| value.table_or("expected tables [interface.NAME]: the list of names is `interfaces`"));
    for (key, value) in each.iter().flat_map(Table::each) {
        let Some(options) =
            value.table().and_then(|table| ratelimit_base::tables::options::read::<InterfaceOptions>(&table, &[]))
        else {
            continue;
        };
        let Some(interface) = interfaces.iter_mut().find(|interface| interface.name == escaped(key.get_ref())) else {
            page.wrong(key.span(), "not in the list of interfaces: add it there, or remove this table");
            continue;
        };
        interface.capacity = options.capacity.map(|RateOrOff(per_second)| per_second);
        interface.shadow = options.shadow.map(|shadow| shadow == Switch::On);
        interface.wait = options.wait != Some(Switch::Off);
        interface.mode = options.mode.map(|mode| match mode {
            ModeName::Auto => Mode::Auto,
            ModeName::Generic => Mode::Generic,
            ModeName::Native => Mode::Native,
        });
    }
    interfaces
}

/// Returns whether Linux accepts the name for an interface.
fn is_interface_name(name: &str) -> bool {
    let is_bad = |byte: u8| byte == b'/' || byte == b':' || byte.is_ascii_whitespace();
    (1..=INTERFACE_NAME).contains(&name.len()) && name != "." && name != ".." && !name.bytes().any(is_bad)
}

#[cfg(test)]
pub mod tests;
