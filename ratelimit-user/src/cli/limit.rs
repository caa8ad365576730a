//! `ratelimit limit set | del | list`.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Result, bail, ensure};
use ratelimit_common::{
    identity::service::Service,
    limits::{
        limit::SECOND,
        policy::{Ban, LIMIT},
    },
    rules::rule::COMMAND,
};
use serde::Serialize;

use super::{
    Answer,
    change::{Change, Deleted, for_time, negative, notes, others},
    many::{self, OneOrMany},
    output::{self, Output, expiry, origin},
};
use crate::{
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            spec::Terms,
            target::{Sources, Target},
        },
        sys::host,
    },
    limit::{
        Rates,
        excess::{self, Throttle},
        write,
    },
    service::ServiceName,
    ssh, units,
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Limit each source of CIDR, or each source that no rule concerns (default)
    Set {
        /// An address, a prefix, or `default`; or - for many prefixes on standard input, one in each line. An IPv6 prefix longer than that
        /// of a source is a source of its own
        #[arg(value_name = "CIDR|default|-")]
        sources: OneOrMany<Sources>,
        #[command(flatten)]
        rates: Rates,
        /// Only packets of this service: tcp, udp, sctp, each alone or with a port (udp/53); tcp-syn (new connections); icmp, gre, esp,
        /// ah, ipip; or a protocol's number. A packet is billed to the narrowest service that has a rule for its source
        #[arg(long, value_name = "PROTO[/PORT]")]
        service: Option<ServiceName>,
        /// End by itself after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
        life: Option<Duration>,
        /// Even if that limits an SSH session of yours that is allowed everything now
        #[arg(long)]
        force: bool,
        /// With -, leave lines out that cannot be used, or say what others say; without this nothing is changed then
        #[arg(long)]
        skip_bad: bool,
    },
    /// Delete the limit of CIDR, or of `default`
    Del {
        /// As it was set; or - for many prefixes on standard input, one in each line
        #[arg(value_name = "CIDR|default|-")]
        sources: OneOrMany<Sources>,
        /// As it was set
        #[arg(long, value_name = "PROTO[/PORT]")]
        service: Option<ServiceName>,
        /// Even if that shuts out this SSH session
        #[arg(long)]
        force: bool,
        /// With -, leave lines out that cannot be used, or have no limit; without this nothing is deleted then
        #[arg(long)]
        skip_bad: bool,
    },
    /// List the limits
    List,
}

/// One rule in output.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    source: String,
    service: String,
    packets: Option<String>,
    bytes: Option<String>,
    burst: u64,
    algorithm: &'static str,
    throttle: String,
    over_limit: &'static str,
    parents: Vec<String>,
    /// Null where nobody is shut out.
    ban: Option<BanRow>,
    /// Seconds.
    expires_in: Option<u64>,
    origin: &'static str,
}

/// Who is shut out for exceeding a limit.
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
    pub(super) fn of(rule: &Listed) -> Self {
        let policy = &rule.terms.policy;
        Self {
            source: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            packets: write::packets(policy),
            bytes: write::bytes(policy),
            burst: policy.given.burst,
            algorithm: write::algorithm(policy),
            throttle: Throttle::of(policy).to_string(),
            over_limit: excess::over_limit(policy),
            parents: rule.terms.parents.iter().map(write::parent).collect(),
            ban: (policy.ban.time != 0).then(|| BanRow::of(policy.ban)),
            expires_in: rule.expires_in.map(|left| left.as_secs()),
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
            expiry(self.expires_in),
            self.origin.to_owned(),
        ]
    }
}

pub(super) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    match command {
        Command::Set { sources: OneOrMany::One(sources), rates, service, life, force, skip_bad } => {
            ensure!(!skip_bad, many::NOT_MANY);
            let target = target(*sources, *service);
            let terms = rates.some_terms(*sources)?;
            set(target, &terms, *life, *force, pins, output)
        }
        Command::Set { sources: OneOrMany::Many, rates, service, life, force, skip_bad } => {
            let service = service.map_or(Service::Any, |service| service.0);
            let terms = rates.some_terms(Sources::Default)?;
            let text = write::limit(&terms);
            many::set(
                &many::Rule { service, terms, life: *life, force: *force, skip_bad: *skip_bad, text: &text },
                pins,
                output,
            )
        }
        Command::Del { sources: OneOrMany::One(sources), service, force, skip_bad } => {
            ensure!(!skip_bad, many::NOT_MANY);
            delete(target(*sources, *service), *force, pins, output)
        }
        Command::Del { sources: OneOrMany::Many, service, force, skip_bad } => {
            let service = service.map_or(Service::Any, |service| service.0);
            let (name, is_meant) = ("limit", &is_limit);
            let (force, skip_bad) = (*force, *skip_bad);
            many::delete(&many::Rules { service, force, skip_bad, name, is_meant, lifts_bans: false }, pins, output)
        }
        Command::List => list(pins, output),
    }
}

fn target(sources: Sources, service: Option<ServiceName>) -> Target {
    Target::from(sources).of(service.map_or(Service::Any, |service| service.0))
}

fn is_limit(rule: &Listed) -> bool {
    rule.terms.policy.kind == LIMIT
}

fn set(
    target: Target,
    terms: &Terms,
    life: Option<Duration>,
    force: bool,
    pins: &Path,
    output: Output,
) -> Result<Answer> {
    if target.sources == Sources::Default && life.is_some() {
        bail!("the default limit cannot end by itself: leave --for away, or limit 0.0.0.0/0 and ::/0 for a time");
    }
    let mut instance = Instance::open(pins)?;
    let set = |instance: &mut Instance| instance.set_rule(target, terms, life, COMMAND);
    let replaced = ssh::guarded(&mut instance, target, force, set)?;
    let row = Row::of(&Listed { target, terms: Arc::new(terms.clone()), expires_in: life, origin: COMMAND });
    let change = Change::of(row, replaced.as_ref(), life);
    let notes = notes(&instance, target)?;
    output.print(&change, |out| {
        writeln!(out, "{target}: {}{}{}", write::limit(terms), for_time(life), change.note())?;
        notes.iter().try_for_each(|note| writeln!(out, "{note}"))
    })?;
    Ok(Answer::Done)
}

fn delete(target: Target, force: bool, pins: &Path, output: Output) -> Result<Answer> {
    let mut instance = Instance::open(pins)?;
    match list::get(&instance.tables, target)? {
        Some(rule) if is_limit(&rule) => {
            ssh::guarded(&mut instance, target, force, |instance| instance.delete_rule(target))?;
        }
        found => {
            let others = others(&instance, target, found)?;
            return negative(output, &format!("{target} has no limit{others}"));
        }
    }
    output.print(&Deleted { deleted: target.to_string() }, |out| writeln!(out, "{target}: limit deleted"))?;
    Ok(Answer::Done)
}

fn list(pins: &Path, output: Output) -> Result<Answer> {
    let instance = Instance::open(pins)?;
    let limits = list::list(&instance.tables)?;
    drop(instance);
    let rows: Vec<Row> = limits.iter().filter(|rule| is_limit(rule)).map(Row::of).collect();
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
