//! The configuration file: text into a model that is valid as a whole, or everything that is wrong with it.

pub mod metrics;
mod options;
mod parts;
mod policies;
pub mod problem;
mod room;
mod rules;
pub mod save;
mod table;

use std::{collections::HashMap, fs, path::Path};

use clap::ValueEnum;
use ratelimit_common::{identity::service::Service, maps::control::IPV6_PREFIX_DEFAULT};
use toml::de::DeTable;

pub use self::rules::Planned;
use self::{
    metrics::Metrics,
    parts::Parts,
    policies::Policies,
    problem::{ConfigError, Problem},
    table::{Page, Table},
};
use crate::{
    dataplane::{attach::attachment::Mode, program::loader::Wanted},
    service::ServiceName,
    settings::{RateOrOff, SettingsArguments},
};

/// What a file says.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Where to attach.
    pub interfaces: Vec<Interface>,
    /// Settings of the program.
    pub wanted: Wanted,
    /// Rules, the defaults among them. No two are about the same.
    pub rules: Vec<Planned>,
    /// What packets of services count as.
    pub costs: Vec<(Service, u32)>,
    /// What the daemon tells others in numbers.
    pub metrics: Metrics,
}

/// An interface to attach to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Where the program runs; nothing where it stays as it is, or is native.
    pub mode: Option<Mode>,
    /// Packets per second that it can take altogether, 0 for none; nothing where it stays as it is.
    pub capacity: Option<u64>,
}

/// The modes, as a file names them.
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
}

/// What stands before the first table.
const TOP: [&str; 8] = ["interfaces", "interface", "settings", "default", "service", "policy", "rule", "metrics"];

/// What is told of a file without any key. One that is just being written is as empty, and must not take everything away.
const SAYS_NOTHING: &str = "the file says nothing: write interfaces = [] if nothing is to be attached or limited";

/// Reads a file.
///
/// # Errors
///
/// [`ConfigError`] with everything that is wrong.
pub fn read(path: &Path) -> Result<Config, ConfigError> {
    let text = fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
    parse(&text).map_err(|problems| ConfigError::Wrong { path: path.to_owned(), problems })
}

/// Reads the text of a file, and the token whose file it names.
///
/// # Errors
///
/// Everything that is wrong, from the beginning on.
pub fn parse(text: &str) -> Result<Config, Vec<Problem>> {
    // What is wrong is told of the whole.
    in_parts(text).map_or_else(|| whole(text), Ok)
}

fn whole(text: &str) -> Result<Config, Vec<Problem>> {
    let (entries, errors) = DeTable::parse_recoverable(text);
    let page = Page::new(text);
    for error in &errors {
        page.wrong(error.span().unwrap_or_default(), error.message());
    }
    let mut config = Config::default();
    if errors.is_empty() && entries.get_ref().is_empty() {
        page.wrong(0..0, SAYS_NOTHING);
    } else if errors.is_empty() {
        let top = Table::new(&page, 0..0, entries.get_ref());
        config = read_top(&page, &top, &mut |_| {});
    }
    let problems = page.problems();
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

/// Reads a file part by part. Nothing where anything is wrong, or has to be read with the rest.
fn in_parts(text: &str) -> Option<Config> {
    let Parts { others, rules } = Parts::of(text);
    let (entries, errors) = DeTable::parse_recoverable(&others);
    let says_nothing = entries.get_ref().is_empty() && rules.is_empty();
    if !errors.is_empty() || says_nothing || entries.get_ref().contains_key("rule") {
        return None;
    }
    let page = Page::new(&others);
    let mut is_good = true;
    let config = read_top(&page, &Table::new(&page, 0..0, entries.get_ref()), &mut |into| {
        is_good = rules.iter().all(|part| add_rules(text.get(part.clone()).unwrap_or_default(), into));
    });
    (is_good && page.problems().is_empty()).then_some(config)
}

/// Adds the rules of a part. Whether all is well.
fn add_rules(text: &str, into: &mut rules::Rules<'_>) -> bool {
    let (entries, errors) = DeTable::parse_recoverable(text);
    let page = Page::new(text);
    let top = Table::new(&page, 0..0, entries.get_ref());
    top.expect_keys(&["rule"], &[]);
    top.get("rule").map(table::Value::tables).unwrap_or_default().iter().for_each(|table| into.add(table));
    errors.is_empty() && page.problems().is_empty()
}

/// Reads all, and rules that stand elsewhere by `more`.
fn read_top(page: &Page<'_>, top: &Table<'_>, more: &mut dyn FnMut(&mut rules::Rules<'_>)) -> Config {
    top.expect_keys(&TOP, &[]);
    let mut config = Config { interfaces: interfaces(page, top), metrics: metrics::read(top), ..Config::default() };
    if let Some(table) = top.get("settings").and_then(table::Value::table) {
        match options::read::<SettingsArguments>(&table, &[]).map(|settings| settings.wanted()) {
            Some(Ok(wanted)) => config.wanted = wanted,
            Some(Err(error)) => table.wrong(options::in_file(&error.to_string())),
            None => {}
        }
    }
    let has_capacity =
        config.interfaces.iter().any(|interface| interface.capacity.is_some_and(|capacity| capacity != 0));
    let ipv6_prefix = config.wanted.ipv6_prefix.unwrap_or(IPV6_PREFIX_DEFAULT) as u8;
    let policies = Policies::read(top, ipv6_prefix, has_capacity);
    let mut rules = rules::Rules::new(&policies);
    if let Some(table) = top.get("default").and_then(table::Value::table) {
        rules.add_default(Service::Any, &table, &[]);
    }
    let mut services = HashMap::new();
    for (key, value) in top.get("service").and_then(table::Value::table).iter().flat_map(Table::each) {
        let Some(table) = value.table() else { continue };
        match key.get_ref().parse::<ServiceName>() {
            Ok(ServiceName(service)) => {
                if let Some(other) = services.insert(service, key.get_ref()) {
                    page.wrong(key.span(), format!("the same service as {other}: say all in one table"));
                }
                config.costs.extend(rules.add_service(service, &table).map(|cost| (service, cost)));
            }
            Err(error) => page.wrong(key.span(), error.to_string()),
        }
    }
    top.get("rule").map(table::Value::tables).unwrap_or_default().iter().for_each(|table| rules.add(table));
    more(&mut rules);
    config.rules = rules.done();
    config
}

/// The interfaces, each with what `[interface.NAME]` says of it.
fn interfaces(page: &Page<'_>, top: &Table<'_>) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    if let Some(names) = top.get("interfaces") {
        for name in names.words().unwrap_or_default() {
            if interfaces.iter().any(|interface| interface.name == name) {
                names.wrong(format!("{name} stands there twice"));
            }
            interfaces.push(Interface { name, mode: None, capacity: None });
        }
    }
    for (key, value) in top.get("interface").and_then(table::Value::table).iter().flat_map(Table::each) {
        let Some(options) = value.table().and_then(|table| options::read::<InterfaceOptions>(&table, &[])) else {
            continue;
        };
        let Some(interface) = interfaces.iter_mut().find(|interface| interface.name == *key.get_ref()) else {
            page.wrong(key.span(), "not among the interfaces: add it there, or leave this table away");
            continue;
        };
        interface.capacity = options.capacity.map(|RateOrOff(per_second)| per_second);
        interface.mode = options.mode.map(|mode| match mode {
            ModeName::Auto => Mode::Auto,
            ModeName::Generic => Mode::Generic,
            ModeName::Native => Mode::Native,
        });
    }
    interfaces
}

#[cfg(test)]
mod tests;
