//! The first screen of the status as text: what is limited, what happens, and what to do.

use std::{
    io::{self, Write},
    time::Duration,
};

use ratelimit_base::text::{
    amount::amount,
    units::{self, PacketRate},
};
use ratelimit_common::limits::limit::{Rate, SECOND};
use ratelimit_daemon::controller::socket::request::Unattached;
use ratelimit_dataplane::readings::rates::Verdicts;

use super::{differences::Difference, file::File, report::Status, rules::DefaultLimit};
use crate::cli::print::{
    output::{self, count},
    source_row::{self, Row},
};

/// The most limits of services that are shown.
const FEW: usize = 5;

pub(super) fn write(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    interfaces(out, status)?;
    limits(out, status)?;
    writeln!(out)?;
    packets(out, status)?;
    if !status.worst.is_empty() {
        writeln!(out)?;
        worst(out, &status.worst)?;
    }
    writeln!(out, "\n{}", status.diagnosis)
}

/// Writes where limits are enforced, and what differs from the file.
fn interfaces(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    // The line about the file says what becomes of such an interface.
    let unattached = || status.config.iter().flat_map(|file| &file.unattached);
    let is_of_daemon = |name: &str| unattached().any(|unattached| unattached.interface.name == name);
    for interface in &status.interfaces {
        let capacity = interface.capacity.map_or_else(String::new, |rate| format!(", capacity {}", per_second(rate)));
        let owner = if interface.origin.is_some() { ", attached by the configuration file" } else { "" };
        let shadow = if interface.shadow { ", in shadow" } else { "" };
        write!(out, "{}: {}", interface.name, interface.state())?;
        // What is not attached has no program.
        if !interface.is_gone {
            write!(out, "{shadow}, program {}{capacity}{owner}", interface.program_id)?;
        } else if !is_of_daemon(&interface.name) {
            write!(out, ": {}", interface.advice)?;
        }
        writeln!(out)?;
    }
    if let Some(file) = &status.config {
        self::file(out, file)?;
    }
    if let Some(seconds) = status.confirm_within_seconds {
        let time = units::write_duration(Duration::from_secs(seconds));
        writeln!(out, "the last attach is undone in {time}, unless `ratelimit confirm` comes first")?;
    }
    if status.interfaces.is_empty() {
        writeln!(out, "not attached to any interface; rules are kept")?;
    }
    if status.shadow.everything {
        writeln!(
            out,
            "shadow mode: every packet passes, and drops are only counted (to enforce: `ratelimit set --shadow off`)"
        )?;
    }
    Ok(())
}

/// Writes what differs from the file.
fn file(out: &mut dyn Write, file: &File) -> io::Result<()> {
    if let Some(why) = &file.refused {
        writeln!(out, "degraded: {} was refused at the last reload: {why}", file.file)?;
    }
    for Unattached { interface, exists } in &file.unattached {
        let left_off = file.left_off.iter().find(|left_off| left_off.name == interface.name);
        let why = match (left_off, exists) {
            (Some(left_off), _) => format!("is not attached: {}", left_off.why),
            (None, true) => "is not attached: run `ratelimit reload`".to_owned(),
            (None, false) => "does not exist: the daemon attaches to it when it appears".to_owned(),
        };
        writeln!(out, "degraded: {}, which {} lists, {why}", interface.name, file.file)?;
    }
    for list in &file.unusable_lists {
        writeln!(out, "degraded: {list}")?;
    }
    for list in &file.remote_lists {
        if let Some(why) = &list.failure {
            writeln!(out, "not fetched: list {}, last success {}: {}: {why}", list.name, list.age(), list.url)?;
        }
    }
    for Difference { name, running, file: wanted } in &file.differences {
        writeln!(out, "differs from {}: {name} is {running}, not {wanted}", file.file)?;
    }
    Ok(())
}

/// Writes the limits that apply to all sources, and the numbers of the other rules.
fn limits(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    for DefaultLimit { service, policy } in status.default_limits.iter().take(FEW) {
        let of = if service == "any" { "default" } else { service };
        writeln!(out, "{of}: {}", policy.text)?;
    }
    if status.default_limits.len() > FEW {
        writeln!(out, "{} more services have limits (`ratelimit limit list`)", status.default_limits.len() - FEW)?;
    }
    if let Some(unknown) = &status.unknown {
        writeln!(out, "unknown sources: {unknown}")?;
    }
    let rules = &status.rules;
    let numbers = [
        (rules.limits, "limit"),
        (rules.allows, "allow"),
        (rules.denies, "deny"),
        (rules.bans, "ban"),
        (rules.stops, "stopped client"),
    ];
    let words = |(number, what): &(u64, &str)| match (*number, *what) {
        (1, what) => format!("1 {what}"),
        (number, "deny") => format!("{number} denies"),
        (number, what) => format!("{number} {what}s"),
    };
    let mut parts: Vec<_> = numbers.iter().filter(|(number, _)| *number > 0).map(words).collect();
    if !status.lists.is_empty() {
        let entries: u64 = status.lists.iter().map(|list| list.entries).sum();
        let noun = if entries == 1 { "entry" } else { "entries" };
        parts.push(format!("{} with {entries} {noun}", count(status.lists.len(), "list")));
    }
    writeln!(out, "rules: {}", if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })?;
    status.spared.write(out)?;
    let Some(file) = &status.config else { return Ok(()) };
    let fetched: Vec<_> = file.remote_lists.iter().map(|list| format!("{} {}", list.name, list.age())).collect();
    if !fetched.is_empty() {
        writeln!(out, "lists from servers: {}", fetched.join(", "))?;
    }
    if let Some(stops) = &file.stops {
        writeln!(out, "stops: {stops}")?;
    }
    if let Some(crowdsec) = &file.crowdsec {
        writeln!(out, "crowdsec: {crowdsec}")?;
    }
    Ok(())
}

/// Writes rates and totals. The column for shadow appears only if it has a number.
fn packets(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    let (now, minute) = (Some(&status.rates.now), status.rates.last_minute.as_ref());
    let all = Verdicts { passed: status.passed, dropped: status.dropped, would_drop: status.shadow.would_drop };
    let rates = [("per second, now", now), ("per second, last minute", minute)];
    let rates = rates.into_iter().filter_map(|(name, rates)| Some((name, rates?.per_second)));
    let total = status.since_at.map_or_else(|| "in total".to_owned(), |since| format!("since {since}"));
    let rows: Vec<_> = rates.chain([(total.as_str(), all)]).collect();
    let has_shadow = rows.iter().any(|(_, row)| row.would_drop.packets > 0);
    let cells = |(name, row): &(&str, Verdicts)| {
        let would_drop = if has_shadow { amount(row.would_drop.packets) } else { String::new() };
        [(*name).to_owned(), amount(row.passed.packets), amount(row.dropped.packets), would_drop]
    };
    output::table(out, ["packets", "passed", "dropped", "would drop"], &rows.iter().map(cells).collect::<Vec<_>>())
}

/// Writes the worst sources.
fn worst(out: &mut dyn Write, sources: &[Row]) -> io::Result<()> {
    let row = |row: &Row| {
        let total = row.dropped.packets + row.would_drop.packets;
        let is_estimate = row.dropped.estimated || row.would_drop.estimated;
        let [passed, refused] = row.per_second.unwrap_or_default().texts(amount);
        [
            row.source.clone(),
            row.service.clone(),
            passed,
            refused,
            source_row::mark(is_estimate).to_owned() + &amount(total),
            row.policy.text.clone(),
        ]
    };
    let head = ["source", "service", "passed/s", "refused/s", "refused", "policy"];
    output::table(out, head, &sources.iter().map(row).collect::<Vec<_>>())
}

fn per_second(amount: u64) -> PacketRate {
    PacketRate(Rate { amount, period: SECOND })
}
