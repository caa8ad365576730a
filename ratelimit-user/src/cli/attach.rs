//! `ratelimit attach`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use ratelimit_common::{maps::control::FEATURE_ELASTIC, rules::rule::COMMAND};
use serde::Serialize;

use super::{Answer, follow, output::Output, status};
use crate::{
    controller::{
        change::{
            interfaces,
            undo::{self, Done},
        },
        confirm::{self, Waiter},
    },
    dataplane::{
        Instance,
        attach::attachment::Mode,
        program::loader::Wanted,
        rules::{
            capacities, list,
            spec::Terms,
            target::{Sources, Target},
        },
        sys::{host, interface},
    },
    limit::{Rates, write},
    prefix::Prefix,
    settings::{RateOrOff, SettingsArguments},
    ssh,
    units::{self, UnitError},
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
    /// Even if rules that were in shadow until now shut out this SSH session
    #[arg(long)]
    force: bool,
    /// Take everything back that this command has done unless `ratelimit confirm` comes in time, from 1s to 1d; the terminal may go meanwhile
    #[arg(long, value_name = "DURATION", value_parser = parse_confirm, conflicts_with = "log_level")]
    confirm: Option<Duration>,
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
    /// Time until all is taken back, unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm_within_seconds: Option<u64>,
}

fn parse_confirm(text: &str) -> Result<Duration, UnitError> {
    let most = Duration::from_hours(24);
    units::duration(text)
        .ok()
        .filter(|time| *time <= most)
        .ok_or(UnitError::new("expected a time from 1s to 1d, such as 60s or 10m"))
}

pub(super) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    if arguments.confirm.is_some() && !confirm::is_waiter() {
        return hand_over();
    }
    host::check()?;
    let terms = arguments.rates.terms(Sources::Default)?;
    let log_level = arguments.log_level.map_or(0, |level| level as u8);
    let wanted = Wanted { log_level, ..arguments.settings.wanted()? };
    // Names are checked before anything is made, and looked up again when no other command can change what they carry.
    interface::find(&arguments.interfaces)?;
    let waiter = arguments.confirm.map(|time| anyhow::Ok((Waiter::new(pins)?, time))).transpose()?;
    let (mut instance, is_new) = Instance::open_or_create(pins, &wanted)?;
    let mut done = Done::default();
    let outcome = match is_new {
        true => first(arguments, terms.as_ref(), &mut instance, &mut done),
        false => again(arguments, terms.as_ref(), &wanted, &mut instance, &mut done),
    };
    let begin = Instant::now();
    if let Err(error) = outcome {
        let left = done.take_back(instance, is_new);
        return Err(undo::with_left(error, &left));
    }
    let reported = report(arguments, &instance, is_new, &done, output);
    if let Some((waiter, time)) = waiter {
        // Whoever does not hear of it any more does not confirm it either.
        waiter.wait(begin + time, instance, is_new, done)?;
        return Ok(Answer::Done);
    }
    reported?;
    match arguments.log_level {
        Some(_) => follow::run(instance, pins),
        None => Ok(Answer::Done),
    }
}

/// Has another process do it all, who waits until it is confirmed.
fn hand_over() -> Result<Answer> {
    let mut out = std::io::stdout().lock();
    let status = confirm::start(&mut out).context("cannot start the process that waits to be confirmed")?;
    Ok(status.map_or(Answer::Done, Answer::Said))
}

/// Makes a new instance's rules, and attaches when they stand.
fn first(arguments: &Arguments, terms: Option<&Terms>, instance: &mut Instance, done: &mut Done) -> Result<()> {
    done.allowed_ssh.extend(allow_ssh_peer(arguments, instance)?);
    set_capacities(arguments, instance, done)?;
    set_default(terms, instance, done)?;
    attach_each(arguments, instance, done)
}

/// Gives interfaces the capacity that was asked for.
fn set_capacities(arguments: &Arguments, instance: &mut Instance, done: &mut Done) -> Result<()> {
    let Some(RateOrOff(per_second)) = arguments.capacity else { return Ok(()) };
    for interface in interface::find(&arguments.interfaces)? {
        done.set_capacity(instance, &interface, per_second)?;
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
    let running = instance.settings()?;
    if running.shadow && !wanted.or(running).shadow && !arguments.force {
        ssh::check_rules(&instance.tables)?;
    }
    let attached = instance.attachments.list()?;
    let indices: Vec<u32> = attached.iter().filter_map(|attachment| attachment.index).collect();
    capacities::keep_only(&mut instance.tables, &indices)?;
    set_capacities(arguments, instance, done)?;
    if let Some(terms) = terms {
        instance.check(Target::DEFAULT, terms)?;
    }
    // Rules were kept while nothing was attached, so the operator may come from elsewhere now.
    if instance.attachments.list()?.is_empty() {
        done.allowed_ssh.extend(allow_ssh_peer(arguments, instance)?);
    }
    attach_each(arguments, instance, done)?;
    done.upgrade(instance, wanted)?;
    set_default(terms, instance, done)
}

/// Allows the address that this SSH session comes from, unless the operator does not want that.
fn allow_ssh_peer(arguments: &Arguments, instance: &mut Instance) -> Result<Option<Prefix>> {
    if arguments.no_allow_ssh {
        return Ok(None);
    }
    Ok(ssh::allow_peer(instance, "--no-allow-ssh")?)
}

fn set_default(terms: Option<&Terms>, instance: &mut Instance, done: &mut Done) -> Result<()> {
    if let Some(terms) = terms {
        done.set_default(instance, terms, COMMAND)?;
    }
    Ok(())
}

/// Attaches to each interface that has not our program already.
fn attach_each(arguments: &Arguments, instance: &mut Instance, done: &mut Done) -> Result<()> {
    let mode = arguments.mode.map(|mode| match mode {
        ModeArgument::Auto => Mode::Auto,
        ModeArgument::Native => Mode::Native,
        ModeArgument::Generic => Mode::Generic,
    });
    let wishes = arguments.interfaces.iter().map(|name| (name.clone(), mode)).collect();
    interfaces::attach(instance, &wishes, arguments.replace, COMMAND, done)?;
    Ok(())
}

fn report(arguments: &Arguments, instance: &Instance, is_new: bool, done: &Done, output: Output) -> Result<()> {
    let (default, others): (Vec<_>, Vec<_>) =
        list::list(&instance.tables)?.into_iter().partition(|rule| rule.target == Target::DEFAULT);
    let now = default.first().map(|rule| write::terms(&rule.terms));
    let before = done.default.as_ref().and_then(|(_, before)| before.as_ref()).map(|rule| write::terms(&rule.terms));
    let attached = Attached {
        interfaces: status::Interface::list(instance)?,
        allowed_ssh: done.allowed_ssh.first().map(Prefix::to_string),
        replaced: before.filter(|before| Some(before) != now.as_ref()),
        default: now,
        rules: others.len(),
        confirm_within_seconds: arguments.confirm.map(|time| time.as_secs()),
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
        if is_new && arguments.settings.could_limit_unknown() {
            writeln!(out, "unknown sources: not limited (`attach --unknown RATE` holds floods from forged addresses)")?;
        }
        if let Some(time) = arguments.confirm {
            let time = units::write_duration(time);
            writeln!(out, "all of this is taken back in {time}, unless `ratelimit confirm` comes before")?;
        }
        Ok(())
    })
}
