//! `ratelimit limit set | del | list`.

use std::{path::Path, time::Duration};

use anyhow::{Result, bail, ensure};
use ratelimit_common::{
    identity::service::Service,
    limits::{
        limit::SECOND,
        policy::{Ban, LIMIT},
    },
};
use serde::Serialize;

use super::{
    change::{self, Change, Deleted, hints, negative, other_rules},
    delete_many, set_many,
    sources_argument::{NO_LIST, OneOrMany},
};
use crate::{
    cli::print::{
        answer::Answer,
        output::{self, Output, covers, expiry, origin},
    },
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            spec::RuleSpec,
            target::{Sources, Target},
        },
        sys::host,
    },
    limit::{
        Rates,
        excess::{self, Throttle},
        write,
    },
    ssh,
    text::service::ServiceName,
    text::units,
};

/// The section of the help for options after those of the limit itself.
const OPTIONS: Option<&str> = None;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Limit each source of a prefix, or each source without another rule (`default`)
    Set {
        /// Address, prefix or `default`; or - to read prefixes from standard input, one per line. Each source in the
        /// prefix gets the limit for itself. An IPv6 prefix longer than `attach --ipv6-prefix` is one source
        #[arg(value_name = "CIDR|default|-")]
        sources: OneOrMany<Sources>,
        #[command(flatten)]
        rates: Rates,
        /// Only packets of this service: tcp, udp or sctp, also with a port or a range of ports (udp/53, tcp/8000-8099);
        /// tcp-syn (new connections); icmp, gre, esp, ah, ipip; or a protocol number. If several services match, the
        /// narrowest one with a rule for the source counts
        #[arg(long, value_name = "PROTO[/PORT[-PORT]]", help_heading = OPTIONS)]
        service: Option<ServiceName>,
        /// Delete the rule after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration, help_heading = OPTIONS)]
        life: Option<Duration>,
        /// Set the limit even if it restricts or blocks your SSH session, or replaces a rule allow
        #[arg(long, help_heading = OPTIONS)]
        force: bool,
        /// With -, skip lines that are invalid or repeat another line. Without this option, one such line stops the
        /// command before it changes anything
        #[arg(long, help_heading = OPTIONS)]
        skip_bad: bool,
    },
    /// Delete the limit of a prefix, or of `default`
    Del {
        /// Address, prefix or `default`, exactly as it was set; or - to read prefixes from standard input, one per line
        #[arg(value_name = "CIDR|default|-")]
        sources: OneOrMany<Sources>,
        /// Service, exactly as it was set
        #[arg(long, value_name = "PROTO[/PORT[-PORT]]")]
        service: Option<ServiceName>,
        /// Delete the limit even if that blocks your SSH session
        #[arg(long)]
        force: bool,
        /// With -, skip lines that are invalid or have no limit. Without this option, one such line stops the command
        /// before it deletes anything
        #[arg(long)]
        skip_bad: bool,
    },
    /// List the limits
    List,
}

/// A limit in the output.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    source: String,
    service: String,
    packets: Option<String>,
    bytes: Option<String>,
    burst: u64,
    algorithm: &'static str,
    throttle: String,
    over_limit: &'static str,
    parents: Vec<String>,
    /// Null if the limit does not ban.
    ban: Option<BanRow>,
    /// Seconds.
    expires_in: Option<u64>,
    /// The rule that returns when this one expires.
    covers: Option<String>,
    origin: &'static str,
}

/// The ban of sources that exceed a limit.
#[derive(Debug, Clone, Copy, Serialize)]
struct BanRow {
    seconds: u64,
    after: u32,
    cap_seconds: u64,
    #[serde(skip)]
    ban: Ban,
}

impl BanRow {
    fn of(ban: Ban) -> Self {
        Self { seconds: ban.time / SECOND, after: ban.after, cap_seconds: ban.most / SECOND, ban }
    }

    fn text(&self) -> Option<String> {
        excess::ban(&self.ban)
    }
}

impl Row {
    pub(crate) fn of(rule: &Listed) -> Self {
        let policy = &rule.spec.policy;
        Self {
            source: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            packets: write::packets(policy),
            bytes: write::bytes(policy),
            burst: policy.given.burst,
            algorithm: write::algorithm(policy),
            throttle: Throttle::of(policy).to_string(),
            over_limit: excess::over_limit(policy),
            parents: rule.spec.parents.iter().map(write::parent).collect(),
            ban: (policy.ban.time != 0).then(|| BanRow::of(policy.ban)),
            expires_in: rule.expires_in.map(|left| left.as_secs()),
            covers: covers(rule),
            origin: origin(rule.origin),
        }
    }

    fn cells(&self) -> [String; 12] {
        let dash = || "-".to_owned();
        [
            self.source.clone(),
            self.service.clone(),
            self.packets.clone().unwrap_or_else(dash),
            self.bytes.clone().unwrap_or_else(dash),
            if self.burst == 0 { dash() } else { self.burst.to_string() },
            self.algorithm.to_owned(),
            self.throttle.clone(),
            self.over_limit.to_owned(),
            if self.parents.is_empty() { dash() } else { self.parents.join(" ") },
            self.ban.as_ref().and_then(BanRow::text).unwrap_or_else(dash),
            expiry(self.expires_in, self.covers.as_deref()),
            self.origin.to_owned(),
        ]
    }
}

pub(crate) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    match command {
        Command::Set { sources: OneOrMany::One(sources), rates, service, life, force, skip_bad } => {
            ensure!(!skip_bad, NO_LIST);
            let target = target(*sources, *service);
            let spec = rates.some_terms(*sources)?;
            set(target, spec, *life, *force, pins, output)
        }
        Command::Set { sources: OneOrMany::Many, rates, service, life, force, skip_bad } => {
            let service = service.map_or(Service::Any, |service| service.0);
            let spec = rates.some_terms(Sources::Default)?;
            let text = write::limit(&spec);
            set_many::set(
                &set_many::Rule { service, spec, life: *life, force: *force, skip_bad: *skip_bad, text: &text },
                pins,
                output,
            )
        }
        Command::Del { sources: OneOrMany::One(sources), service, force, skip_bad } => {
            ensure!(!skip_bad, NO_LIST);
            delete(target(*sources, *service), *force, pins, output)
        }
        Command::Del { sources: OneOrMany::Many, service, force, skip_bad } => {
            let service = service.map_or(Service::Any, |service| service.0);
            let (name, matches) = ("limit", &is_limit);
            let (force, skip_bad) = (*force, *skip_bad);
            delete_many::delete(
                &delete_many::Rules { service, force, skip_bad, name, matches, lifts_bans: false },
                pins,
                output,
            )
        }
        Command::List => list(pins, output),
    }
}

fn target(sources: Sources, service: Option<ServiceName>) -> Target {
    Target::from(sources).of(service.map_or(Service::Any, |service| service.0))
}

fn is_limit(spec: &RuleSpec) -> bool {
    spec.policy.kind == LIMIT
}

fn set(
    target: Target,
    spec: RuleSpec,
    life: Option<Duration>,
    force: bool,
    pins: &Path,
    output: Output,
) -> Result<Answer> {
    if target.sources == Sources::Default && life.is_some() {
        bail!("the default limit cannot expire: omit --for, or limit 0.0.0.0/0 and ::/0 instead");
    }
    let mut instance = Instance::open(pins)?;
    let text = write::limit(&spec);
    let (set, replaced) = change::set(&mut instance, target, spec, life, force)?;
    let change = Change::of(Row::of(&set), &set, replaced.as_ref(), life);
    let hints = hints(&instance, target)?;
    output.print(&change, |out| {
        writeln!(out, "{target}: {text}{}", change.end())?;
        hints.iter().try_for_each(|hint| writeln!(out, "{hint}"))
    })?;
    Ok(Answer::Done)
}

fn delete(target: Target, force: bool, pins: &Path, output: Output) -> Result<Answer> {
    let mut instance = Instance::open(pins)?;
    let found = list::get(&instance.tables, target)?;
    let Some((deletion, then)) = found.as_ref().and_then(|rule| change::deletion(rule, is_limit)) else {
        let others = other_rules(&instance, target, found)?;
        return negative(output, &format!("{target} has no limit{others}"));
    };
    ssh::change(&mut instance, &deletion, force, &mut |_| {})?;
    output.print(&Deleted { deleted: target.to_string() }, |out| writeln!(out, "{target}: limit deleted{then}"))?;
    Ok(Answer::Done)
}

fn list(pins: &Path, output: Output) -> Result<Answer> {
    let instance = Instance::open(pins)?;
    let limits = list::list(&instance.tables)?;
    drop(instance);
    let rows: Vec<Row> = limits.iter().filter(|rule| is_limit(&rule.spec)).map(Row::of).collect();
    output.print(&rows, |out| {
        if rows.is_empty() {
            return writeln!(out, "no limits");
        }
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        output::table(
            out,
            [
                "source",
                "service",
                "packets",
                "bytes",
                "burst",
                "algorithm",
                "throttle",
                "over limit",
                "parents",
                "ban",
                "expires",
                "origin",
            ],
            &cells,
        )
    })?;
    Ok(Answer::Done)
}
