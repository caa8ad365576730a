//! `ratelimit check`: problems of a file, and with `--host` those that it has on this host.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::Result;
use ratelimit_base::{
    files::writers,
    tables::problem::{ConfigError, Problem},
    text::{excerpt::escaped, feed::Bad, pasted},
};
use ratelimit_common::maps::control::IPV6_PREFIX_DEFAULT;
use ratelimit_daemon::{
    config::{self, Config, Planned, PlannedList, daemon::kept::Kept},
    controller::{change::stacked, socket::request::ago},
};
use ratelimit_dataplane::{
    Error,
    attach::refusal,
    instance::read_only::View,
    lists::action::Action,
    rules::target::Sources,
    spared::{place::Surroundings, unapplied::Found},
    sys::interface::{self, is_there},
};
use serde::Serialize;

use super::{REQUEST_TABLES, serve_tables::ServeTables, warnings};
use crate::cli::{
    print::{
        answer::Answer,
        output::{Output, count},
    },
    rules::lines::{SHOWN, report_in},
};

/// Said about a file that attaches nothing.
const NO_INTERFACE: &str =
    "  no interface: `ratelimit run` limits nothing until the file or `ratelimit attach` names one";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration file
    file: PathBuf,
    /// Also check that the interfaces of the file exist on this host, and that ratelimit can limit them
    #[arg(long)]
    host: bool,
}

#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    /// Empty if the file can be applied.
    problems: Vec<Problem>,
    /// Lists whose files cannot be used.
    lists: Vec<ListProblem>,
    /// The first lines of each list that cannot be used.
    skipped: Vec<SkippedLine>,
    /// Problems of `[serve]` with the files that it names.
    serve: Vec<String>,
    /// What has no effect, or needs another host.
    warnings: Vec<String>,
    /// Problems of the interfaces on this host. None without `--host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Vec<HostProblem>>,
}

/// A list of the file whose own file cannot be used now.
#[derive(Debug, Serialize)]
struct ListProblem {
    list: String,
    message: String,
}

/// A line of a list that cannot be used.
#[derive(Debug, Serialize)]
struct SkippedLine {
    list: String,
    line: usize,
    message: String,
}

/// An interface of the file that cannot be limited now.
#[derive(Debug, Serialize)]
struct HostProblem {
    interface: String,
    message: String,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    let file = arguments.file.display().to_string();
    match config::read(&arguments.file, REQUEST_TABLES) {
        Ok(config) => {
            for list in &config.lists {
                report_in(&list.file.display().to_string(), list.content.iter().flat_map(|content| &content.bad))?;
            }
            let host = arguments.host.then(|| on_host(&config, pins)).transpose()?;
            let skipped = config.lists.iter().flat_map(skipped).collect();
            let ServeTables { is_for_serve, warnings: of_serve, problems: serve } =
                ServeTables::read(&arguments.file, &config)?;
            let limits_nothing = config.interfaces.is_empty() && !is_for_serve;
            let mut warnings = warnings::of(&config, SystemTime::now());
            warnings.extend(of_serve);
            warnings.extend(writers::warnings(&config.files));
            warnings.extend(config.lists.iter().filter_map(not_fetched));
            if arguments.host {
                warnings.extend(not_applied(&config)?);
            }
            for warning in &warnings {
                writeln!(io::stderr(), "ratelimit: warning: {file}: {}", pasted::text(&escaped(warning)))?;
            }
            let lists = of_lists(&config);
            let checked = Checked { file, problems: Vec::new(), lists, skipped, serve, warnings, host };
            let of_lists = checked.lists.iter().map(|problem| &problem.message);
            let messages: Vec<_> = of_lists
                .chain(&checked.serve)
                .chain(checked.host.iter().flatten().map(|problem| &problem.message))
                .collect();
            output.print(&checked, |out| {
                if messages.is_empty() {
                    writeln!(out, "{}: good, with {}", checked.file, content(&config, is_for_serve))?;
                    for copy in config.lists.iter().filter_map(fetched) {
                        writeln!(out, "{copy}")?;
                    }
                    if limits_nothing {
                        writeln!(out, "{NO_INTERFACE}")?;
                    }
                    return Ok(());
                }
                messages.iter().try_for_each(|message| writeln!(out, "{}: {}", checked.file, escaped(message)))
            })?;
            Ok(if messages.is_empty() { Answer::Done } else { Answer::Negative })
        }
        Err(ConfigError::Wrong { problems, .. }) => {
            let (lists, skipped, serve, warnings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let checked = Checked { file, problems, lists, skipped, serve, warnings, host: None };
            output.print(&checked, |out| {
                checked.problems.iter().try_for_each(|problem| writeln!(out, "{}:{problem}", checked.file))
            })?;
            Ok(Answer::Negative)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns what a file has. One for `ratelimit serve` needs nothing about packets.
fn content(config: &Config, is_for_serve: bool) -> String {
    let [interfaces, rules, lists, of_requests] = [
        (config.interfaces.len(), "interface"),
        (config.rules.len(), "rule"),
        (config.lists.len(), "list"),
        (config.requests, "rule"),
    ]
    .map(|(number, what)| (number != 0).then(|| count(number, what)));
    let of_requests = of_requests.map(|rules| format!("{rules} for requests"));
    if is_for_serve && interfaces.is_none() && rules.is_none() && lists.is_none() {
        return of_requests.unwrap_or_else(|| "no rules for requests".to_owned());
    }
    let [interfaces, rules] =
        [interfaces.unwrap_or_else(|| "0 interfaces".to_owned()), rules.unwrap_or_else(|| "0 rules".to_owned())];
    let more: String = [lists, of_requests].into_iter().flatten().map(|part| format!(", and {part}")).collect();
    format!("{interfaces} and {rules}{more}")
}

/// Returns how old the copy of a list on a server is.
fn fetched(list: &PlannedList) -> Option<String> {
    let address = &list.remote.as_ref()?.address;
    let kept = Kept::read(&list.file).filter(|_| list.content.is_ok())?;
    Some(format!("  list {}: {address} has confirmed the copy {}", list.name, ago(kept.checked_at)))
}

/// Returns that the daemon has to fetch a list first.
fn not_fetched(list: &PlannedList) -> Option<String> {
    let (remote, reason) = (list.remote.as_ref()?, list.content.as_ref().err()?);
    Some(format!("list {}: {} {reason}: the daemon fetches {}", list.name, list.file.display(), remote.address))
}

/// Returns what of the file's lists and denies is not applied to this host's own network.
fn not_applied(config: &Config) -> Result<Vec<String>, Error> {
    let settings = config.requested;
    if settings.spare == Some(false) {
        return Ok(Vec::new());
    }
    let places = Surroundings::read()?.places(settings.ipv6_prefix.unwrap_or(IPV6_PREFIX_DEFAULT) as u8);
    let denied = |rule: &Planned| match rule.target.sources {
        Sources::Prefix(prefix) if rule.spec.policy.is_deny() => Some(prefix),
        _ => None,
    };
    let mut lines: Vec<String> = Found::of(&places, config.rules.iter().filter_map(denied))
        .lines(SHOWN)
        .map(|line| format!("deny {line}"))
        .collect();
    for list in config.lists.iter().filter(|list| list.action == Action::Deny) {
        let entries = list.content.iter().flat_map(|content| content.entries.iter());
        lines.extend(Found::of(&places, entries).lines(SHOWN).map(|line| format!("list {}: {line}", list.name)));
    }
    Ok(lines)
}

/// Returns the lists whose files cannot be used. A copy that the daemon fetches is none of them.
fn of_lists(config: &Config) -> Vec<ListProblem> {
    let problem = |list: &PlannedList| {
        let (name, file, reason) = (&list.name, list.file.display(), list.content.as_ref().err()?);
        let message = format!("list {name}: {file} {reason}, so the daemon keeps the previous list, if there is one");
        Some(ListProblem { list: name.clone(), message })
    };
    config.lists.iter().filter(|list| list.remote.is_none()).filter_map(problem).collect()
}

/// Returns the first lines of a list that cannot be used.
fn skipped(list: &PlannedList) -> impl Iterator<Item = SkippedLine> {
    let bad = list.content.iter().flat_map(|content| &content.bad).take(SHOWN);
    bad.map(|Bad { line, why }| SkippedLine { list: list.name.clone(), line: *line, message: why.clone() })
}

/// Returns the problems of the file's interfaces on this host.
fn on_host(config: &Config, pins: &Path) -> Result<Vec<HostProblem>, Error> {
    let all = interface::list()?;
    let present: Vec<_> = config.interfaces.iter().filter(|one| is_there(&all, &one.name)).cloned().collect();
    // Without privileges, nobody knows what is attached.
    let attached = View::attachments_in(pins).unwrap_or_default();
    let (_, left_off) = stacked::divide(pins, &present, &attached, &all);
    let mut problems = Vec::new();
    for config::Interface { name, mode, wait, .. } in &config.interfaces {
        let left_off = left_off.iter().find(|left_off| left_off.name == *name);
        let message = match all.iter().find(|interface| interface.name == *name) {
            Some(interface) => {
                let refused = refusal::refusal(pins, &all, interface, *mode).map(|error| error.to_string());
                refused.or_else(|| Some(left_off?.of_daemon()))
            }
            None if *wait => Some(format!(
                "{name} does not exist on this host: the daemon waits for it, and limits the other interfaces"
            )),
            None => {
                Some(format!("{name} does not exist on this host, and has wait = false: the daemon refuses the file"))
            }
        };
        problems.extend(message.map(|message| HostProblem { interface: name.clone(), message }));
    }
    Ok(problems)
}
