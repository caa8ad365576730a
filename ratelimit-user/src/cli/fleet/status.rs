//! Shows what this host knows of its fleet.

use std::{io, io::Write, path::Path, time::Duration};

use anyhow::{Result, bail};
use ratelimit_base::text::units;
use ratelimit_daemon::controller::socket::{
    client::SocketError,
    request::{Reply, Request},
};
use ratelimit_dataplane::lists::listing::BANS;
use ratelimit_protocol::fleet::{DeniedSource, Denies, Member, SharedRules, SharedSource, Status};

use super::ask::ask;
use crate::cli::print::{
    answer::Answer,
    output::{self, Output},
};

pub(super) fn run(pins: &Path, output: Output) -> Result<Answer> {
    let Reply::Fleet(Some(mut status)) = ask(pins, Request::Fleet)? else { bail!(SocketError::NoAnswer) };
    // JSON names the engine only.
    let in_use = status.in_use.take().map_or_else(String::new, |server| format!(" ({server} is in use)"));
    output.print(&status, |out| write(out, &status, &in_use))?;
    Ok(if status.is_up { Answer::Done } else { Answer::Negative })
}

fn write(out: &mut dyn Write, status: &Status, in_use: &str) -> io::Result<()> {
    let since = status.since_seconds;
    match (&status.error, status.is_up) {
        (_, true) => {
            let latency =
                status.latency_seconds.map(|latency| format!(", the last answer took {:.1} ms", latency * 1e3));
            writeln!(
                out,
                "engine {}{in_use} has answered for {since:.0} s{}",
                status.engine,
                latency.unwrap_or_default()
            )?;
        }
        (Some(error), false) => {
            writeln!(out, "engine {} has not answered for {since:.0} s, local limits apply: {error}", status.engine)?;
        }
        (None, false) => writeln!(out, "engine {}: not yet reached, local limits apply", status.engine)?,
    }
    if let Some(policy) = &status.evicts {
        writeln!(out, "warning: the engine may forget records: set maxmemory-policy to noeviction, it is {policy}")?;
    }
    writeln!(
        out,
        "{} reported, {} of them with a share; {} answered, {} failed\n",
        output::count(status.reported, "source"),
        status.shared,
        output::count(status.reports as usize, "report"),
        output::count(status.failures as usize, "call"),
    )?;
    let host = |member: &Member| {
        let is_this = if member.id == status.id { " (this host)" } else { "" };
        [
            format!("{}{is_this}", member.name()),
            member.about.version.clone(),
            member.about.weight.to_string(),
            format!("{:.1} s ago", member.silent_seconds),
            member.about.limit.clone(),
            rules(member),
        ]
    };
    let rows: Vec<_> = status.members.iter().map(host).collect();
    output::table(out, ["host", "version", "weight", "heard", "default limit", "rules"], &rows)?;
    match status.hosts.saturating_sub(status.members.len()) {
        0 => {}
        more => writeln!(out, "and {}", output::count(more, "more host"))?,
    }
    let others: Vec<_> = status.others().map(Member::name).collect();
    if !others.is_empty() {
        writeln!(out, "warning: hosts with another default limit share none with this host: {}", others.join(", "))?;
    }
    if let Some(rules) = &status.rules {
        write_rules(out, rules)?;
    }
    if let Some(denies) = &status.denies {
        write_denies(out, denies)?;
    }
    if !status.sources.is_empty() {
        writeln!(out)?;
        let source = |source: &SharedSource| {
            [
                source.source.clone(),
                source.service.clone(),
                format!("{:.0}", source.limit_per_second),
                format!("{:.0}", source.offered_per_second),
                source.share.map_or_else(|| "whole".to_owned(), |share| format!("{:.2} %", share * 100.0)),
            ]
        };
        let rows: Vec<_> = status.sources.iter().map(source).collect();
        output::table(out, ["source", "service", "limit/s", "offered here/s", "share here"], &rows)?;
    }
    Ok(())
}

fn write_denies(out: &mut dyn Write, denies: &Denies) -> io::Result<()> {
    let Denies { told, in_force, left_out, problem, sources } = denies;
    let left_out = if *left_out == 0 { String::new() } else { format!(", {left_out} left out for lack of room") };
    writeln!(
        out,
        "\n{} told to other hosts, {} denied here because others do{left_out}",
        output::count(*told, "denied source"),
        output::count(*in_force, "source")
    )?;
    if let Some(problem) = problem {
        writeln!(out, "warning: {problem}")?;
    }
    if sources.is_empty() {
        return Ok(());
    }
    let row = |denied: &DeniedSource| {
        let left = units::write_duration(Duration::from_secs(denied.left_seconds));
        [denied.source.clone(), denied.host.clone(), left]
    };
    let rows: Vec<_> = sources.iter().map(row).collect();
    output::table(out, ["denied source", "told by", "ends in"], &rows)?;
    match in_force.saturating_sub(sources.len()) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more: `ratelimit list show {BANS} --entries` prints all"),
    }
}

/// Returns which shared rules are in force on a host.
fn rules(member: &Member) -> String {
    let in_force = member.about.rules.filter(|version| *version != 0).map(|version| format!("version {version}"));
    match &member.about.refused {
        None => in_force.unwrap_or_default(),
        Some(why) => format!("{}, refuses a newer one: {why}", in_force.as_deref().unwrap_or("none")),
    }
}

fn write_rules(out: &mut dyn Write, rules: &SharedRules) -> io::Result<()> {
    let in_force = match (rules.in_force, rules.version) {
        (_, 0) => "there are no shared rules yet".to_owned(),
        (Some(version), newest) if version == newest => format!("version {version} of the shared rules is in force"),
        (Some(version), newest) => format!("version {version} of the shared rules is in force, the newest is {newest}"),
        (None, newest) => format!("no version of the shared rules is in force, the newest is {newest}"),
    };
    writeln!(out, "\n{in_force}")?;
    for problem in rules.refused.iter().chain(&rules.problem) {
        writeln!(out, "warning: {problem}")?;
    }
    Ok(())
}
