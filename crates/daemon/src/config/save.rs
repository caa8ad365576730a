//! Writes what is in force as a configuration file.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::{Duration, SystemTime},
};

use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{
    limits::policy::Policy,
    rules::rule::{APPLICATION, BANNED},
};
use ratelimit_dataplane::{
    Error, Instance,
    attach::attachment::Mode,
    program::{
        loader::{LEARNED, Settings},
        values,
    },
    rules::{
        capacities, costs,
        list::{self, Listed},
        spec::RuleSpec,
        target::{Sources, Target},
    },
    sys::interface::Attached,
};
use serde::Serialize;
use toml::value::Datetime;

use super::{
    save_lists::Lists,
    saved::{Saved, spec},
};
use crate::config;

/// A file that [`super::parse`] reads.
#[derive(Debug, Serialize)]
pub struct File {
    interfaces: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    interface: BTreeMap<String, Interface>,
    settings: SavedSettings,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Saved>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    service: BTreeMap<String, Service>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    policy: BTreeMap<String, Saved>,
    #[serde(flatten)]
    lists: Lists,
    rule: Vec<Rule>,
    /// Rules that `--force` has set.
    #[serde(skip)]
    forced: Vec<Target>,
}

#[derive(Debug, Serialize)]
struct Interface {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    shadow: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct SavedSettings {
    ipv6_prefix: u32,
    max_sources: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cells: Option<u32>,
    sample: bool,
    admissions: String,
    unknown: String,
    prove: String,
    proofs: String,
    own: String,
    spare: bool,
    replies: String,
    max_sliding_logs: u32,
    malformed: &'static str,
    shadow: bool,
}

#[derive(Debug, Default, Serialize)]
struct Service {
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u32>,
    #[serde(flatten)]
    spec: Saved,
}

#[derive(Debug, Serialize)]
pub(super) struct Rule {
    pub(super) source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Moment>,
    #[serde(flatten)]
    pub(super) spec: Saved,
}

/// The moment when a rule expires.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Moment {
    Value(Datetime),
    Text(String),
}

/// Returns the interfaces, settings, costs, lists and rules of an instance as a file, whatever their origin. Bans are
/// left out. `awaited` are the interfaces that a daemon waits for.
///
/// # Errors
///
/// Fails with [`Error::Bpf`] if the kernel refuses.
pub fn save(instance: &Instance, awaited: &[config::Interface]) -> Result<String, Error> {
    let file = file(instance, awaited, Moment::Value)?;
    let text = toml::to_string(&file)
        .map_err(|error| Error::Bpf { what: "cannot write the configuration", detail: error.to_string() })?;
    let forced = file.forced.iter().map(|target| {
        format!(
            "# {target} was denied with --force, which a file does not have: its deny spares this host's own network\n"
        )
    });
    Ok(text + &file.lists.comments() + &forced.collect::<String>())
}

/// Returns the content of the file for JSON, which has no dates: they are text.
///
/// # Errors
///
/// Fails with [`Error::Bpf`] if the kernel refuses.
pub fn document(instance: &Instance, awaited: &[config::Interface]) -> Result<File, Error> {
    file(instance, awaited, |moment| Moment::Text(moment.to_string()))
}

fn file(instance: &Instance, awaited: &[config::Interface], moment: fn(Datetime) -> Moment) -> Result<File, Error> {
    let mut policy = BTreeMap::new();
    let lists = Lists::of(&instance.tables, &mut policy)?;
    let mut file = File {
        interfaces: Vec::new(),
        interface: BTreeMap::new(),
        settings: settings(&instance.settings()?),
        default: None,
        service: BTreeMap::new(),
        policy,
        lists,
        rule: Vec::new(),
        forced: Vec::new(),
    };
    for attachment in instance.attachments.list()? {
        let Some(index) = attachment.index else { continue };
        let mode = (attachment.mode == Some(Attached::Generic)).then_some(Mode::Generic);
        let shadow = attachment.is_shadow();
        file.attach(attachment.name, mode, capacities::of(&instance.tables, index)?, shadow);
    }
    for config::Interface { name, mode, capacity, shadow, .. } in awaited {
        let (mode, capacity) = (mode.filter(|mode| *mode != Mode::Native), capacity.filter(|rate| *rate != 0));
        file.attach(name.clone(), mode, capacity, shadow.unwrap_or(false));
    }
    for cost in costs::list(&instance.tables)? {
        file.service.entry(ServiceName(cost.service).to_string()).or_default().cost = Some(cost.cost);
    }
    for rule in list::list(&instance.tables)?.iter().filter(|rule| !matches!(rule.origin, BANNED | APPLICATION)) {
        file.forced.extend(Some(rule.target).filter(|_| rule.spec.policy == Policy::FORCED));
        file.add(rule, moment);
    }
    Ok(file)
}

impl File {
    fn attach(&mut self, name: String, mode: Option<Mode>, capacity: Option<u64>, shadow: bool) {
        if mode.is_some() || capacity.is_some() || shadow {
            let capacity = capacity.map(|rate| format!("{rate}/s"));
            self.interface.insert(name.clone(), Interface { mode, capacity, shadow });
        }
        self.interfaces.push(name);
    }

    fn add(&mut self, rule: &Listed, moment: fn(Datetime) -> Moment) {
        // A file has one rule for each target: the one that stays.
        let lasting = rule.lasting();
        let in_force = lasting.as_ref().map_or(&rule.spec, |lasting| &lasting.spec);
        let comment = lasting.as_ref().map_or(&rule.comment, |lasting| &lasting.comment);
        let spec = Saved { comment: comment.as_deref().map(str::to_owned), ..self.named(in_force) };
        let service = rule.target.service;
        let name =
            (service != ratelimit_common::identity::service::Service::Any).then(|| ServiceName(service).to_string());
        match (rule.target.sources, name) {
            (Sources::Default, None) => self.default = Some(spec),
            (Sources::Default, Some(name)) => self.service.entry(name).or_default().spec = spec,
            (Sources::Prefix(prefix), service) => {
                let until = rule.expires_in.filter(|_| lasting.is_none()).and_then(until).map(moment);
                self.rule.push(Rule { source: prefix.to_string(), service, until, spec });
            }
        }
    }
}

impl File {
    /// Returns a limit or verdict. One with a name becomes a policy of that name, unless the name has another limit.
    fn named(&mut self, in_force: &RuleSpec) -> Saved {
        let saved = spec(in_force);
        let Some(name) = in_force.name() else { return saved };
        match self.policy.entry(name.to_owned()) {
            Entry::Occupied(known) if *known.get() != saved => return saved,
            entry => entry.or_insert(saved),
        };
        Saved { policy: Some(name.to_owned()), ..Saved::default() }
    }
}

/// Returns the moment after this time, rounded to seconds.
fn until(left: Duration) -> Option<Datetime> {
    moment_of(SystemTime::now() + left)
}

/// Returns a moment, rounded to seconds.
pub(super) fn moment_of(moment: SystemTime) -> Option<Datetime> {
    let moment = jiff::Timestamp::try_from(moment).ok()?;
    moment.round(jiff::Unit::Second).ok()?.to_string().parse().ok()
}

fn settings(settings: &Settings) -> SavedSettings {
    let rate = |per_second| if per_second == 0 { "off".to_owned() } else { format!("{per_second}/s") };
    SavedSettings {
        ipv6_prefix: settings.ipv6_prefix,
        max_sources: settings.buckets,
        front: (settings.cells == 0).then_some(false),
        cells: (settings.cells != 0).then_some(settings.cells),
        sample: settings.sample,
        admissions: rate(settings.admissions),
        unknown: if settings.unknown == LEARNED { "auto".to_owned() } else { rate(settings.unknown) },
        prove: values::proof(settings.prove_tcp),
        proofs: rate(settings.proofs),
        own: rate(settings.own),
        spare: settings.spare,
        replies: rate(settings.replies),
        max_sliding_logs: settings.sliding_logs,
        malformed: if settings.pass_malformed { "pass" } else { "drop" },
        shadow: settings.shadow,
    }
}
