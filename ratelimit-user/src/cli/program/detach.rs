//! `ratelimit detach`.

use std::{
    ops::Not,
    path::{Path, PathBuf},
};

use anyhow::Result;
use ratelimit_base::text::excerpt::escaped;
use ratelimit_daemon::controller::{confirm::client as confirm, socket::client as socket};
use ratelimit_dataplane::{
    Error, Instance,
    instance::removal::{self, Removed},
    rules::capacities,
    sys::host,
};
use serde::Serialize;

use crate::cli::print::{
    answer::Answer,
    output::{Output, count},
};

const REMOVED: &str = "all rules and counters are removed";

/// The most pins of others that are printed one by one.
const SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Interfaces to detach from. Rules and counters are kept
    #[arg(value_name = "IFACE", required_unless_present = "all")]
    interfaces: Vec<String>,
    /// Detach from every interface, and remove all rules, counters and maps
    #[arg(long, conflicts_with = "interfaces")]
    all: bool,
}

#[derive(Debug, Serialize)]
struct Detached {
    detached: Vec<String>,
    /// Pins that are not ratelimit's. Absent if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<PathBuf>,
    /// Whether a daemon still runs, and attaches again at its next reload. Absent if none does.
    #[serde(skip_serializing_if = "Not::not")]
    daemon_runs: bool,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    if arguments.all {
        let Removed { interfaces: detached, left, had_pins } = match removal::remove_all(pins) {
            // There is nothing to remove.
            Err(Error::NotAttached(_)) => Removed::default(),
            removed => removed?,
        };
        confirm::notify_removed(pins);
        let what = match detached.as_slice() {
            [] if !had_pins => format!("nothing is attached in {}", escaped(&pins.to_string_lossy())),
            [] => format!("no interface was attached; {REMOVED}"),
            names => format!("detached from {}; {REMOVED}", names.join(", ")),
        };
        let daemon_runs = socket::is_listening(pins);
        output.print(&Detached { detached, left: left.clone(), daemon_runs }, |out| {
            writeln!(out, "{what}")?;
            for pin in left.iter().take(SHOWN) {
                writeln!(out, "{}: stays, because it does not belong to ratelimit", escaped(&pin.to_string_lossy()))?;
            }
            if left.len() > SHOWN {
                writeln!(out, "{} more stay", count(left.len() - SHOWN, "pin"))?;
            }
            if daemon_runs {
                writeln!(
                    out,
                    "the daemon still runs, and attaches again when its file or one of its lists changes: to prevent that, stop it, as with `systemctl stop ratelimit`"
                )?;
            }
            Ok(())
        })?;
        return Ok(Answer::Done);
    }
    let mut instance = Instance::open(pins)?;
    instance.attachments.detach(&arguments.interfaces)?;
    let mut detached = arguments.interfaces.clone();
    detached.dedup();
    // The interfaces are detached already. If this fails, a capacity without an interface stays. It has no effect, and
    // the next `detach` removes it.
    let left = instance.attachments.list();
    if let Ok(left) = &left {
        let indices: Vec<u32> = left.iter().filter_map(|attachment| attachment.index).collect();
        let _ = capacities::keep_only(&mut instance.tables, &indices);
    }
    instance.forget_interfaces();
    drop(instance);
    let (names, is_last) = (detached.join(", "), left.is_ok_and(|left| left.is_empty()));
    output.print(&Detached { detached, left: Vec::new(), daemon_runs: false }, |out| {
        writeln!(out, "detached from {names}")?;
        if is_last {
            writeln!(out, "the rules are kept for the next `ratelimit attach`; `ratelimit detach --all` removes them")?;
        }
        Ok(())
    })?;
    Ok(Answer::Done)
}
