//! `ratelimit attach`.

use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use ratelimit_base::{
    notify::journal::{self, Level},
    text::units::{self, UnitError},
};
use ratelimit_common::rules::rule::COMMAND;
use ratelimit_daemon::{
    controller::{
        change::{
            interfaces::{self, Manner, Requested, RequestedInterface},
            left,
            undo::Done,
        },
        confirm::{
            start,
            waiter::{Outcome, Waiter},
        },
        events::changes,
        socket::client,
    },
    limit::{Rates, merge::merge, write},
    settings::{RateOrOff, SettingsArguments},
    ssh,
};
use ratelimit_dataplane::{
    Error, Instance,
    attach::attachment::{Attachment, Mode},
    instance::open::Versions,
    program::{
        loader::{RequestedSettings, Settings},
        values,
    },
    rules::{
        capacities, list,
        spec::RuleSpec,
        target::{Sources, Target},
    },
    sys::{
        host, interface,
        signals::{self, Held},
    },
};

use super::{
    follow,
    report::{self, Report},
};
use crate::cli::print::{
    answer::Answer,
    output::{Endable, Output},
};

/// The section of the help for options after those of limits and settings.
const OPTIONS: Option<&str> = None;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Interfaces to attach to. All interfaces of an instance share one set of rules
    #[arg(value_name = "IFACE", required = true)]
    interfaces: Vec<String>,
    #[command(flatten)]
    rates: Rates,
    /// Where the program runs: native (in the driver), generic (in the network stack, which is slower), or auto (native
    /// if the driver supports it) [default: native]
    #[arg(long, value_enum, value_name = "auto|native|generic", hide_possible_values = true, help_heading = OPTIONS)]
    mode: Option<ModeArgument>,
    /// Replace an XDP program that is not ratelimit's
    #[arg(long, help_heading = OPTIONS)]
    replace: bool,
    #[command(flatten)]
    settings: SettingsArguments,
    /// Packets per second that each of these interfaces can take in total, from 1/s, or off. Below it, elastic limits
    /// let packets over the limit pass
    #[arg(long, value_name = "RATE|off", help_heading = OPTIONS)]
    capacity: Option<RateOrOff>,
    /// Change settings even if an SSH session is then restricted or blocked
    #[arg(long, help_heading = OPTIONS)]
    force: bool,
    /// Undo everything that this command does, unless `ratelimit confirm` follows within this time, from 1s to 1d. This
    /// also works when the terminal closes
    #[arg(long, value_name = "DURATION", value_parser = parse_confirm, conflicts_with = "log_level", help_heading = OPTIONS)]
    confirm: Option<Duration>,
    /// Print messages of the kernel program until Ctrl-C. This slows down every dropped packet
    #[arg(long, value_enum, value_name = "LEVEL", help_heading = OPTIONS)]
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

fn parse_confirm(text: &str) -> Result<Duration, UnitError> {
    let most = Duration::from_hours(24);
    units::duration(text)
        .ok()
        .filter(|time| *time <= most)
        .ok_or(UnitError::new("expected a time from 1s to 1d, such as 60s or 10m"))
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    if arguments.confirm.is_some() && !start::is_waiter() {
        return start_waiter();
    }
    host::check()?;
    let spec = arguments.rates.spec(Sources::Default)?;
    let log_level = arguments.log_level.map_or(0, |level| level as u8);
    let requested = RequestedSettings { log_level, ..arguments.settings.requested()? };
    // Names and link types are checked before anything changes. They are looked up again under the lock, when programs
    // on them cannot change.
    interfaces::check(&arguments.interfaces)?;
    if start::is_waiter() {
        signals::let_through_from_parent()?;
    }
    let held = Held::hold()?;
    let waiter = arguments.confirm.map(|time| anyhow::Ok((Waiter::new(pins)?, time))).transpose()?;
    let changed = change(arguments, spec, &requested, pins);
    let begin = Instant::now();
    if let Err(error) = &changed
        && signals::arrived().is_some()
        && journal::is_ready()
    {
        journal::say(Level::Error, &format!("{error:#}"));
    }
    // From now on, a signal makes the waiter undo everything. After a failure, there is nothing to wait for.
    let waiter = waiter.filter(|_| changed.is_ok()).map(|(waiter, time)| (waiter.catch_signals(), waiter, time));
    // A signal that has come ends the process here, or later if everything was done already.
    drop(held);
    let (instance, is_new, done) = changed?;
    let about = Report {
        named: &arguments.interfaces,
        may_fall_back: arguments.mode == Some(ModeArgument::Auto),
        capacity: arguments.capacity.map(|RateOrOff(per_second)| per_second),
        settings: &arguments.settings,
        is_new,
        confirm: arguments.confirm,
    };
    let reported = report::print(&about, &instance, &done, output);
    let reported = reported.context("the change is in force, but cannot be shown");
    if let Some((caught, waiter, time)) = waiter {
        // A failure to print does not end the wait: without a confirmation, everything is undone.
        let Outcome::Undone { is_complete } = waiter.wait(caught, begin + time, instance, is_new, done)? else {
            return Ok(Answer::Unchanged);
        };
        // A new instance is gone with its record.
        let _ = changes::record_as_operator(pins, "attach undone, because it was not confirmed");
        return Ok(if is_complete { Answer::Reported(start::UNDONE) } else { Answer::Unchanged });
    }
    reported?;
    match arguments.log_level {
        Some(_) => follow::run(instance, pins),
        None => Ok(Answer::Done),
    }
}

/// Makes the changes. Returns the instance, whether it is new, and what was done. A failure or a signal undoes all of it.
fn change(
    arguments: &Arguments,
    spec: Option<RuleSpec>,
    requested: &RequestedSettings,
    pins: &Path,
) -> Result<(Instance, bool, Done)> {
    let was_there = pins.exists();
    let opened = Instance::open_or_create(pins, requested, Versions::Own);
    let (mut instance, is_new) = opened.map_err(|error| undone(error.into(), was_there || !pins.exists()))?;
    let mut done = Done::default();
    let outcome = match is_new {
        true => first(arguments, spec.as_ref(), &mut instance, &mut done),
        false => again(arguments, spec, requested, &mut instance, &mut done),
    };
    match outcome {
        Ok(()) => Ok((instance, is_new, done)),
        Err(error) => {
            let left = done.undo(instance, is_new);
            Err(left::with_left(undone(error, left.is_empty()), &left))
        }
    }
}

/// Returns the error. That of a signal tells whether nothing is left of the changes.
fn undone(error: anyhow::Error, is_so: bool) -> anyhow::Error {
    let is_signal = matches!(error.downcast_ref(), Some(Error::Signal(_)));
    if is_signal && is_so { anyhow!("{error}, and everything is as it was before") } else { error }
}

/// Runs this command in another process, which then waits for `ratelimit confirm`.
fn start_waiter() -> Result<Answer> {
    let status =
        start::start(&mut Endable::default()).context("cannot start the process that waits for `ratelimit confirm`")?;
    Ok(status.map_or(Answer::Done, Answer::Reported))
}

/// Sets the rules of a new instance, and then attaches.
fn first(arguments: &Arguments, spec: Option<&RuleSpec>, instance: &mut Instance, done: &mut Done) -> Result<()> {
    done.allowed_ssh.extend(ssh::allow_peer(instance, "--no-allow-ssh")?);
    set_capacities(arguments, instance, done)?;
    let guard = ssh::Guard::of(&instance.tables, arguments.force)?.of_new();
    set_default(&guard, spec, instance, done)?;
    attach_each(arguments, false, instance, done)
}

/// Sets the capacity of the interfaces, if one is given.
fn set_capacities(arguments: &Arguments, instance: &mut Instance, done: &mut Done) -> Result<()> {
    let Some(RateOrOff(per_second)) = arguments.capacity else { return Ok(()) };
    for interface in interface::find(&arguments.interfaces)? {
        done.set_capacity(instance, &interface, per_second)?;
    }
    Ok(())
}

/// Replaces the program of a running instance, and then attaches further interfaces: the first packet of an interface
/// already meets the requested settings and limit.
fn again(
    arguments: &Arguments,
    spec: Option<RuleSpec>,
    requested: &RequestedSettings,
    instance: &mut Instance,
    done: &mut Done,
) -> Result<()> {
    let spec = spec.map(|_| changed_default(arguments, instance)).transpose()?;
    let spec = spec.as_ref();
    interfaces::check_modes(instance, &self::requested(arguments, false))?;
    let running = instance.settings()?;
    let attached = instance.attachments.list()?;
    // A new interface beside others can be in shadow alone.
    let others = others(arguments, &attached, instance);
    let is_new = |name: &String| attached.iter().all(|attachment| !attachment.is_on(name));
    let is_beside_others = !others.is_empty() && arguments.interfaces.iter().all(is_new);
    let is_alone = requested.shadow == Some(true) && !running.shadow && is_beside_others;
    let requested = &RequestedSettings { shadow: requested.shadow.filter(|_| !is_alone), ..*requested };
    check_shared(spec, (&running, requested), &others, instance)?;
    // Rules can be older than this session.
    if !arguments.force {
        done.allowed_ssh.extend(ssh::allow_peer(instance, "--no-allow-ssh")?);
    }
    // The end of shadow is also that of the named interfaces alone.
    let is_marked = |attachment: &Attachment| {
        attachment.is_shadow() && arguments.interfaces.iter().any(|name| attachment.is_on(name))
    };
    let ends_marks = requested.shadow == Some(false) && attached.iter().any(is_marked);
    let before = Settings { shadow: running.shadow || ends_marks, ..running };
    let guard = ssh::Guard::of(&instance.tables, arguments.force)?;
    guard.check_settings(&instance.tables, &before, &requested.or(running))?;
    let indices: Vec<u32> = attached.iter().filter_map(|attachment| attachment.index).collect();
    capacities::keep_only(&mut instance.tables, &indices)?;
    set_capacities(arguments, instance, done)?;
    if let Some(spec) = spec {
        instance.check(Target::DEFAULT, spec)?;
    }
    signals::check()?;
    done.upgrade(instance, requested)?;
    signals::check()?;
    if ends_marks {
        done.set_shadow(instance, &is_marked, false)?;
    }
    let guard = ssh::Guard::of(&instance.tables, arguments.force)?;
    set_default(&guard, spec, instance, done)?;
    attach_each(arguments, is_alone, instance, done)
}

/// Returns the interfaces that share the instance and are not named: those that are attached, and those of the daemon's
/// file that may come back.
fn others(arguments: &Arguments, attached: &[Attachment], instance: &Instance) -> Vec<String> {
    let present = attached.iter().filter(|attachment| !attachment.is_gone).map(|attachment| attachment.name.clone());
    let listed = client::file_state(instance.pins()).map(|state| state.interfaces).unwrap_or_default();
    let all: BTreeSet<String> = present.chain(listed.into_iter().map(|listed| listed.name)).collect();
    all.into_iter().filter(|name| !arguments.interfaces.contains(name)).collect()
}

/// Returns the default limit with the given options. What is not given stays.
fn changed_default(arguments: &Arguments, instance: &Instance) -> Result<RuleSpec> {
    let default = list::get(&instance.tables, Target::DEFAULT)?;
    let existing = default.as_ref().map(|rule| &*rule.spec);
    merge(existing, &arguments.rates, Sources::Default, "`ratelimit limit set default --replace …`")
}

/// Refuses to change what interfaces share that are not named.
fn check_shared(
    spec: Option<&RuleSpec>,
    (running, requested): (&Settings, &RequestedSettings),
    others: &[String],
    instance: &Instance,
) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let others = others.join(", ");
    if let Some(setting) = values::changed(running, &requested.or(*running)).first() {
        let one = if *setting == "shadow" { ", and with --interface for one" } else { "" };
        bail!(
            "--{setting} would also change {others}: `ratelimit set --{setting} …` changes it for all interfaces{one}"
        );
    }
    let Some(spec) = spec.map(write::spec) else { return Ok(()) };
    let rules = list::list(&instance.tables)?;
    let default = rules.iter().find(|rule| rule.target == Target::DEFAULT);
    ensure!(
        default.is_some_and(|rule| write::spec(&rule.spec) == spec),
        "the default limit would also change on {others}: `ratelimit limit set default …` changes it for all interfaces"
    );
    Ok(())
}

fn set_default(guard: &ssh::Guard, spec: Option<&RuleSpec>, instance: &mut Instance, done: &mut Done) -> Result<()> {
    if let Some(spec) = spec {
        done.set_default(instance, spec, COMMAND, &|tables| guard.check(tables))?;
    }
    Ok(())
}

/// Attaches to each interface that does not run this program yet.
fn attach_each(arguments: &Arguments, shadow: bool, instance: &mut Instance, done: &mut Done) -> Result<()> {
    let manner = Manner { replace: arguments.replace, origin: COMMAND, makes_room: &|_| false };
    interfaces::attach(instance, &requested(arguments, shadow), manner, done)?;
    Ok(())
}

/// Returns the interfaces with their requested modes. With `shadow`, new ones are in shadow alone.
fn requested(arguments: &Arguments, shadow: bool) -> Requested {
    let mode = arguments.mode.map(|mode| match mode {
        ModeArgument::Auto => Mode::Auto,
        ModeArgument::Native => Mode::Native,
        ModeArgument::Generic => Mode::Generic,
    });
    let of = |name: &String| RequestedInterface { name: name.clone(), mode, shadow };
    arguments.interfaces.iter().map(of).collect()
}
