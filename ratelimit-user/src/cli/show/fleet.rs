//! `ratelimit fleet status`.

use std::{io, io::Write, path::Path, time::Duration};

use anyhow::{Result, bail};

use crate::{
    cli::print::{
        answer::Answer,
        output::{self, Output},
    },
    controller::socket::{
        client,
        folder::DAEMON,
        request::{Reply, Request},
    },
    fleet::{
        hosts::Member,
        status::{DeniedSource, Denies, SharedSource, Status},
    },
    text::units,
};

/// The list of sources that other hosts deny.
const BANS: &str = "fleet:bans";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the engine, the hosts, and the sources that share a limit
    ///
    /// Asks the daemon of this host. Exit status 1 if the engine does not answer, so that local limits apply.
    Status,
}

pub(crate) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    let Command::Status = command;
    let status = match client::ask(pins, DAEMON, Request::Fleet)? {
        Reply::Fleet(Some(status)) => status,
        Reply::Fleet(None) => {
            bail!("this host is in no fleet: add the table [fleet] with an engine to the file of the daemon")
        }
        Reply::Failed(message) => bail!(message),
        _ => bail!(client::SocketError::NoAnswer),
    };
    output.print(&status, |out| write(out, &status))?;
    Ok(if status.is_up { Answer::Done } else { Answer::Negative })
}

fn write(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    let since = status.since_seconds;
    match (&status.error, status.is_up) {
        (_, true) => {
            let latency =
                status.latency_seconds.map(|latency| format!(", the last answer took {:.1} ms", latency * 1e3));
            writeln!(out, "engine {} answers since {since:.0} s{}", status.engine, latency.unwrap_or_default())?;
        }
        (Some(error), false) => {
            writeln!(out, "engine {} does not answer since {since:.0} s, local limits apply: {error}", status.engine)?;
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
        ]
    };
    let rows: Vec<_> = status.members.iter().map(host).collect();
    output::table(out, ["host", "version", "weight", "heard", "default limit"], &rows)?;
    match status.hosts.saturating_sub(status.members.len()) {
        0 => {}
        more => writeln!(out, "and {}", output::count(more, "more host"))?,
    }
    let others: Vec<_> = status.others().map(Member::name).collect();
    if !others.is_empty() {
        writeln!(out, "warning: hosts with another default limit share none with this host: {}", others.join(", "))?;
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
