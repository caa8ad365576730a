//! `ratelimit attach`.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use ratelimit_common::{control::FEATURE_ELASTIC, rule::COMMAND};
use serde::Serialize;

use super::{Answer, follow, output::Output, status};
use crate::{
    dataplane::{
        Error, Instance,
        attachment::{Added, Mode},
        capacities, host,
        interface::{self, Attached as RunningMode, Interface},
        object::Wanted,
        rules,
        target::{Sources, Target},
        terms::Terms,
    },
    limit::{Rates, write},
    prefix::Prefix,
    settings::{RateOrOff, SettingsArguments},
    ssh,
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Interfaces to attach to; all share one set of limits
    #[arg(value_name = "IFACE", required = true)]
    interfaces: Vec<String>,
    #[command(flatten)]
    rates: Rates,
    /// In the driver, in the network stack, or in the driver if it can [default: native]
    #[arg(long, value_enum)]
    mode: Option<ModeArgument>,
    /// Take the place of another XDP program
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    settings: SettingsArguments,
    /// Packets per second that each of these interfaces can take altogether, from 1/s on, or off: up to that, what is over an elastic limit passes
    #[arg(long, value_name = "RATE|off")]
    capacity: Option<RateOrOff>,
    /// Do not allow the address that this SSH session comes from
    #[arg(long)]
    no_allow_ssh: bool,
    /// Print messages of the kernel side until Ctrl-C; costs time on every packet that is dropped
    #[arg(long, value_enum, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
    /// The default that it took the place of.
    replaced: Option<String>,
    /// Rules besides the default.
    rules: usize,
}

pub(super) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let terms = arguments.rates.terms(Sources::Default)?;
    let log_level = arguments.log_level.map_or(0, |level| level as u8);
    let wanted = Wanted { log_level, ..arguments.settings.wanted()? };
    // Names are checked before anything is made, and looked up again when no other command can change what they carry.
    interface::find(&arguments.interfaces)?;
    let (mut instance, is_new) = Instance::open_or_create(pins, &wanted)?;
    let mut done = Done::default();
    let outcome = match is_new {
        true => first(arguments, terms.as_ref(), &mut instance, &mut done),
        false => again(arguments, terms.as_ref(), &wanted, &mut instance, &mut done),
    };
    if let Err(error) = outcome {
        undo(instance, is_new, done);
        return Err(error);
    }
    report(arguments, &instance, is_new, done, output)?;
    match arguments.log_level {
        Some(_) => follow::run(instance, pins),
        None => Ok(Answer::Done),
    }
}

/// What an attach has done so far, to be taken back if it fails.
#[derive(Default)]
struct Done {
    added: Vec<Added>,
    allowed_ssh: Option<Prefix>,
    /// Interfaces whose capacity was changed, by index, with what it was.
    capacities: Vec<(u32, u64)>,
    /// The default limit that another one took the place of.
    replaced: Option<String>,
}

/// Makes a new instance's rules, and attaches when they stand.
fn first(arguments: &Arguments, terms: Option<&Terms>, instance: &mut Instance, done: &mut Done) -> Result<()> {
    done.allowed_ssh = allow_ssh_peer(arguments, instance)?;
    set_capacities(arguments, instance, done)?;
    set_default(terms, instance)?;
    attach_each(arguments, instance, &mut done.added)
}

/// Gives interfaces the capacity that was asked for, noting what they had.
fn set_capacities(arguments: &Arguments, instance: &mut Instance, done: &mut Done) -> Result<()> {
    let Some(RateOrOff(per_second)) = arguments.capacity else { return Ok(()) };
    for interface in interface::find(&arguments.interfaces)? {
        let before = capacities::of(&instance.tables, interface.index)?.unwrap_or(0);
        capacities::set(&mut instance.tables, interface.index, per_second)?;
        done.capacities.push((interface.index, before));
    }
    Ok(())
}

/// Adds interfaces to a running instance and brings its program up to date. What cannot be undone comes last.
fn again(
    arguments: &Arguments,
    terms: Option<&Terms>,
    wanted: &Wanted,
    instance: &mut Instance,
    done: &mut Done,
) -> Result<()> {
    let attached = instance.attachments.list()?;
    let indices: Vec<u32> = attached.iter().filter_map(|attachment| attachment.index).collect();
    capacities::keep_only(&mut instance.tables, &indices)?;
    set_capacities(arguments, instance, done)?;
    if let Some(terms) = terms {
        instance.check(Target::DEFAULT, terms)?;
    }
    // Rules were kept while nothing was attached, so the operator may come from elsewhere now.
    if instance.attachments.list()?.is_empty() {
        done.allowed_ssh = allow_ssh_peer(arguments, instance)?;
    }
    attach_each(arguments, instance, &mut done.added)?;
    instance.upgrade(wanted)?;
    let before = rules::get(&instance.tables, Target::DEFAULT)?;
    done.replaced = before.filter(|_| terms.is_some()).map(|rule| write::terms(&rule.terms));
    set_default(terms, instance)
}

/// Allows the address that this SSH session comes from, unless the operator does not want that.
fn allow_ssh_peer(arguments: &Arguments, instance: &mut Instance) -> Result<Option<Prefix>> {
    if arguments.no_allow_ssh {
        return Ok(None);
    }
    Ok(ssh::allow_peer(instance, "--no-allow-ssh")?)
}

fn set_default(terms: Option<&Terms>, instance: &mut Instance) -> Result<()> {
    if let Some(terms) = terms {
        instance.set_rule(Target::DEFAULT, terms, None, COMMAND)?;
    }
    Ok(())
}

/// Attaches to each interface that has not our program already, noting those that got it.
fn attach_each(arguments: &Arguments, instance: &Instance, added: &mut Vec<Added>) -> Result<()> {
    let mode = match arguments.mode {
        Some(ModeArgument::Auto) => Mode::Auto,
        Some(ModeArgument::Native) | None => Mode::Native,
        Some(ModeArgument::Generic) => Mode::Generic,
    };
    let mut program = instance.program()?;
    let ours: Vec<u32> = instance.attachments.list()?.iter().map(|attachment| attachment.program_id).collect();
    for interface in interface::find(&arguments.interfaces)? {
        match interface.program {
            Some(running) if ours.contains(&running.id) => mode_stays(arguments.mode, &interface, running.mode)?,
            _ => added.push(instance.attachments.attach(&mut program, interface, mode, arguments.replace)?),
        }
    }
    Ok(())
}

/// A mode that was asked for in so many words is not ignored where our program runs in the other.
fn mode_stays(asked: Option<ModeArgument>, interface: &Interface, running: RunningMode) -> Result<()> {
    let same = match asked {
        Some(ModeArgument::Native) => running == RunningMode::Native,
        Some(ModeArgument::Generic) => running == RunningMode::Generic,
        Some(ModeArgument::Auto) | None => true,
    };
    anyhow::ensure!(same, Error::OtherMode { name: interface.name.clone(), running: running.name() });
    Ok(())
}

/// Takes back what a failed attach has done, as far as it goes: what the operator must hear of is why it failed.
fn undo(mut instance: Instance, is_new: bool, done: Done) {
    for added in done.added {
        let _ = instance.attachments.take_back(added);
    }
    if let Some(peer) = done.allowed_ssh {
        let _ = instance.delete_rule(Target::prefix(peer));
    }
    for (index, before) in done.capacities {
        let _ = capacities::set(&mut instance.tables, index, before);
    }
    if is_new {
        let _ = instance.remove();
    }
}

fn report(arguments: &Arguments, instance: &Instance, is_new: bool, done: Done, output: Output) -> Result<()> {
    let (default, others): (Vec<_>, Vec<_>) =
        rules::list(&instance.tables)?.into_iter().partition(|rule| rule.target == Target::DEFAULT);
    let now = default.first().map(|rule| write::terms(&rule.terms));
    let attached = Attached {
        interfaces: status::Interface::list(instance)?,
        allowed_ssh: done.allowed_ssh.map(|peer| peer.to_string()),
        replaced: done.replaced.filter(|before| Some(before) != now.as_ref()),
        default: now,
        rules: others.len(),
    };
    let limit = default.first().map(|rule| write::limit(&rule.terms));
    let is_elastic = instance.tables.control()?.features & FEATURE_ELASTIC != 0;
    let elastic_without_room = is_elastic && !capacities::is_any(&instance.tables)?;
    output.print(&attached, |out| {
        for interface in &attached.interfaces {
            let asked = arguments.interfaces.contains(&interface.name);
            let fell_back = asked && arguments.mode == Some(ModeArgument::Auto) && interface.mode == Some("generic");
            let why = if fell_back { ": its driver has no native XDP, so this is slower" } else { "" };
            match interface.mode {
                Some(mode) => writeln!(out, "{}: attached, {mode}{why}", interface.name)?,
                None => writeln!(out, "{}: {}", interface.name, interface.state())?,
            }
        }
        if let Some(peer) = &attached.allowed_ssh {
            writeln!(
                out,
                "{peer}: allowed, because this SSH session comes from it (`ratelimit allow del {peer}` to change)"
            )?;
        }
        match (&limit, attached.rules) {
            (Some(limit), _) => {
                let before = attached.replaced.as_ref();
                let replaced = before.map_or_else(String::new, |before| format!(" (instead of: {before})"));
                writeln!(out, "default: {limit}{replaced}")?;
            }
            (None, 0) => writeln!(
                out,
                "default: no limit, only observing (`ratelimit limit set default --packets RATE` to change)"
            )?,
            (None, _) => writeln!(out, "default: no limit")?,
        }
        if attached.rules != 0 {
            let rules = attached.rules;
            writeln!(out, "rules in force: {rules} (`ratelimit limit list`, `allow list`, `deny list`)")?;
        }
        if let Some(RateOrOff(per_second)) = arguments.capacity {
            let capacity = if per_second == 0 { "none".to_owned() } else { format!("{per_second}/s") };
            writeln!(out, "capacity: {capacity} on {}", arguments.interfaces.join(", "))?;
            if elastic_without_room {
                writeln!(out, "elastic limits are hard now: no interface has a capacity")?;
            }
        }
        for line in arguments.settings.said() {
            writeln!(out, "{line}")?;
        }
        if is_new && arguments.settings.could_limit_strangers() {
            writeln!(out, "strangers: not limited (`attach --strangers RATE` holds floods from forged addresses)")?;
        }
        Ok(())
    })
}
