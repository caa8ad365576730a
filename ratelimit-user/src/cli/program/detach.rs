//! `ratelimit detach`.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::{
    cli::print::{answer::Answer, output::Output},
    controller::{confirm::client as confirm, socket::client as socket},
    dataplane::{Error, Instance, instance::open, rules::capacities, sys::host},
};

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
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    if arguments.all {
        let detached = match open::remove_all(pins) {
            Ok(detached) => detached,
            // Nothing is left to remove.
            Err(Error::NotAttached) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        confirm::notify_removed(pins);
        let names = if detached.is_empty() { "no interface".to_owned() } else { detached.join(", ") };
        output.print(&Detached { detached }, |out| {
            writeln!(out, "detached from {names}; nothing of ratelimit is left")?;
            if socket::is_listening(pins) {
                writeln!(
                    out,
                    "the daemon still runs, and attaches again at its next reload: to prevent that, stop it with `systemctl stop ratelimit`"
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
    let left = instance.attachments.list()?;
    let indices: Vec<u32> = left.iter().filter_map(|attachment| attachment.index).collect();
    capacities::keep_only(&mut instance.tables, &indices)?;
    instance.forget_interfaces();
    drop(instance);
    let names = detached.join(", ");
    output.print(&Detached { detached }, |out| {
        writeln!(out, "detached from {names}")?;
        if left.is_empty() {
            writeln!(out, "the rules are kept for the next `ratelimit attach`; `ratelimit detach --all` removes them")?;
        }
        Ok(())
    })?;
    Ok(Answer::Done)
}
