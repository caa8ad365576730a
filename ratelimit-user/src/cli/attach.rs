//! `ratelimit attach`.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use ratelimit_common::{
    policy::Policy,
    rule::{COMMAND, SSH},
};
use serde::Serialize;

use super::{
    Answer,
    limit::Rates,
    output::{self, Output},
    ssh, status,
};
use crate::{
    dataplane::{
        Instance,
        attachment::{Added, Mode},
        host, interface, log,
        object::Wanted,
        rules::{self, Target},
    },
    prefix::Prefix,
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Interfaces to attach to; all share one set of limits
    #[arg(value_name = "IFACE", required = true)]
    interfaces: Vec<String>,
    #[command(flatten)]
    rates: Rates,
    /// In the driver, in the network stack, or in the driver if it can
    #[arg(long, value_enum, default_value = "native")]
    mode: ModeArgument,
    /// Take the place of another XDP program
    #[arg(long)]
    replace: bool,
    /// Bits of an IPv6 address that make a source [default: 64]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=128))]
    ipv6_prefix: Option<u32>,
    /// Sources that are tracked at a time, at 144 bytes each; the longest silent one gives way [default: 65536]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    max_sources: Option<u32>,
    /// Do not allow the address that this SSH session comes from
    #[arg(long)]
    no_allow_ssh: bool,
    /// Print messages of the kernel side until Ctrl-C; costs time on every packet that is dropped
    #[arg(long, value_enum, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeArgument {
    Auto,
    Native,
    Generic,
}

/// The levels of aya-log.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogLevel {
    Error = 1,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Serialize)]
struct Attached {
    interfaces: Vec<status::Interface>,
    allowed_ssh: Option<String>,
    default: Option<String>,
}

pub(super) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let policy = arguments.rates.limit().map(|limit| limit.policy()).transpose()?;
    let wanted = Wanted {
        ipv6_prefix: arguments.ipv6_prefix,
        buckets: arguments.max_sources,
        log_level: arguments.log_level.map_or(0, |level| level as u8),
    };
    // Names are checked before anything is made.
    interface::find(&arguments.interfaces)?;
    let (mut instance, is_new) = Instance::open_or_create(pins, &wanted)?;
    let mut added = Vec::new();
    let outcome = match is_new {
        true => first(arguments, policy.as_ref(), &mut instance, &mut added),
        false => again(arguments, policy.as_ref(), &wanted, &mut instance, &mut added).map(|()| None),
    };
    let allowed_ssh = match outcome {
        Ok(allowed_ssh) => allowed_ssh,
        Err(error) => {
            undo(instance, is_new, added)?;
            return Err(error);
        }
    };
    report(&instance, allowed_ssh, output)?;
    match arguments.log_level {
        Some(_) => follow(instance, pins),
        None => Ok(Answer::Done),
    }
}

/// Makes a new instance's rules, and attaches when they stand. Returns the SSH peer that was allowed.
fn first(
    arguments: &Arguments,
    policy: Option<&Policy>,
    instance: &mut Instance,
    added: &mut Vec<Added>,
) -> Result<Option<Prefix>> {
    let peer = if arguments.no_allow_ssh { None } else { ssh::peer().map(Prefix::host) };
    if let Some(peer) = peer {
        rules::set(&mut instance.tables, Target::Prefix(peer), &Policy::ALLOWED, None, SSH)?;
    }
    set_default(policy, instance)?;
    attach_each(arguments, instance, added)?;
    Ok(peer)
}

/// Adds interfaces to a running instance and brings its program up to date. What cannot be undone comes last.
fn again(
    arguments: &Arguments,
    policy: Option<&Policy>,
    wanted: &Wanted,
    instance: &mut Instance,
    added: &mut Vec<Added>,
) -> Result<()> {
    attach_each(arguments, instance, added)?;
    instance.upgrade(wanted)?;
    set_default(policy, instance)
}

fn set_default(policy: Option<&Policy>, instance: &mut Instance) -> Result<()> {
    if let Some(policy) = policy {
        rules::set(&mut instance.tables, Target::Default, policy, None, COMMAND)?;
    }
    Ok(())
}

/// Attaches to each interface that has not our program already, noting those that got it.
fn attach_each(arguments: &Arguments, instance: &Instance, added: &mut Vec<Added>) -> Result<()> {
    let mode = match arguments.mode {
        ModeArgument::Auto => Mode::Auto,
        ModeArgument::Native => Mode::Native,
        ModeArgument::Generic => Mode::Generic,
    };
    let mut program = instance.program()?;
    let ours: Vec<u32> = instance.attachments.list()?.iter().map(|attachment| attachment.program_id).collect();
    for interface in interface::find(&arguments.interfaces)? {
        if interface.program.is_some_and(|program| ours.contains(&program.id)) {
            continue;
        }
        added.push(instance.attachments.attach(&mut program, interface, mode, arguments.replace)?);
    }
    Ok(())
}

/// Takes back what a failed attach has done.
fn undo(instance: Instance, is_new: bool, added: Vec<Added>) -> Result<()> {
    for added in added {
        instance.attachments.take_back(added)?;
    }
    if is_new {
        instance.remove()?;
    }
    Ok(())
}

fn report(instance: &Instance, allowed_ssh: Option<Prefix>, output: Output) -> Result<()> {
    let default = rules::get(&instance.tables, Target::Default)?;
    let attached = Attached {
        interfaces: instance.attachments.list()?.into_iter().map(status::Interface::from).collect(),
        allowed_ssh: allowed_ssh.map(|peer| peer.to_string()),
        default: default.map(|rule| output::policy(&rule.policy)),
    };
    output.print(&attached, |out| {
        for interface in &attached.interfaces {
            writeln!(out, "{}: attached, {}", interface.name, interface.mode.unwrap_or("not visible from here"))?;
        }
        if let Some(peer) = &attached.allowed_ssh {
            writeln!(
                out,
                "{peer}: allowed, because this SSH session comes from it (`ratelimit allow del {peer}` to change)"
            )?;
        }
        match &attached.default {
            Some(default) => writeln!(out, "default: {default} per source"),
            None => writeln!(
                out,
                "default: no limit, only observing (`ratelimit limit set default --packets RATE` to change)"
            ),
        }
    })
}

/// Prints what the kernel side says, until Ctrl-C, and then puts the silent program back.
fn follow(instance: Instance, pins: &Path) -> Result<Answer> {
    let program_id = instance.program()?.info().context("cannot read the program")?.id();
    drop(instance);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let interrupted = async {
        // Without a handler for Ctrl-C there is nothing to wait for.
        let _ = tokio::signal::ctrl_c().await;
    };
    runtime.block_on(log::follow(program_id, interrupted))?;
    // Another command may have detached meanwhile.
    if let Ok(mut instance) = Instance::open(pins) {
        instance.upgrade(&Wanted::default())?;
    }
    Ok(Answer::Done)
}
