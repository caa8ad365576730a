//! `ratelimit set`.

use std::path::Path;

use anyhow::{Result, ensure};
use ratelimit_daemon::{settings::SettingsArguments, ssh};
use ratelimit_dataplane::{
    Error, Instance,
    attach::attachment::Attachment,
    program::{
        loader::{RequestedSettings, Settings},
        values,
    },
    sys::host,
};
use serde::Serialize;

use crate::cli::print::{answer::Answer, hint, in_shadow::InShadow, output::Output};

// Here, no interface can follow `--shadow`, so its value may be a word of its own.
#[derive(Debug, clap::Args)]
#[command(mut_arg("shadow", |shadow| shadow.require_equals(false)))]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// With --shadow, change only this attached interface. Can be given several times
    #[arg(long, value_name = "IFACE", requires = "shadow")]
    interface: Vec<String>,
    /// Change the settings even if an SSH session is then restricted or blocked
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Serialize)]
struct Changed {
    /// Names of the settings that have changed.
    changed: Vec<&'static str>,
    /// Interfaces whose own shadow has changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interfaces: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let requested = arguments.settings.requested()?;
    ensure!(
        requested != RequestedSettings::default(),
        "no setting is given: `ratelimit help set` lists them, such as `ratelimit set --shadow on`"
    );
    let mut instance = Instance::open(pins)?;
    let changed = if arguments.interface.is_empty() {
        of_all(arguments, &requested, &mut instance)?
    } else {
        let only_shadow = RequestedSettings { shadow: requested.shadow, ..RequestedSettings::default() };
        ensure!(requested == only_shadow, "--interface goes only with --shadow: set the others without --interface");
        of_interfaces(arguments, requested.shadow == Some(true), &mut instance)?
    };
    let attached: Vec<String> = instance.attachments.list()?.into_iter().map(|attachment| attachment.name).collect();
    let starts_answers = requested.prove_tcp == Some(true);
    let lost = if starts_answers { hint::lost_answers(&instance, &attached)? } else { Vec::new() };
    let is_nothing = changed.changed.is_empty() && changed.interfaces.is_empty();
    let in_shadow = if requested.shadow == Some(false) { Some(InShadow::read(&instance.tables)?) } else { None };
    output.print(&changed, |out| {
        for line in arguments.settings.lines(&arguments.interface).into_iter().chain(lost) {
            writeln!(out, "{line}")?;
        }
        if let Some(limits) = &in_shadow {
            limits.write(out)?;
            if attached.is_empty() {
                writeln!(out, "  not attached to any interface: they are enforced after the next `ratelimit attach`")?;
            }
        }
        if is_nothing {
            return writeln!(out, "nothing has changed: this was in force already");
        }
        if changed.changed.is_empty() { hint::of_interface(out, pins) } else { hint::of_file(out, pins) }
    })?;
    Ok(if is_nothing { Answer::Unchanged } else { Answer::Done })
}

/// Changes settings that all interfaces share. The end of shadow is also that of single interfaces.
fn of_all(arguments: &Arguments, requested: &RequestedSettings, instance: &mut Instance) -> Result<Changed> {
    let running = instance.settings()?;
    let now = requested.or(running);
    let is_marked = instance.attachments.list()?.iter().any(Attachment::is_shadow);
    let ends_marks = requested.shadow == Some(false) && is_marked;
    let changed = values::changed(&running, &now);
    let mut interfaces = Vec::new();
    if !changed.is_empty() || ends_marks {
        ssh::protect(instance, arguments.force, |instance| {
            let before = Settings { shadow: running.shadow || ends_marks, ..running };
            check(arguments, instance, &before, &now)?;
            if !changed.is_empty() {
                instance.upgrade(requested)?;
            }
            if ends_marks {
                interfaces = instance.set_shadow(&|_| true, false)?;
            }
            Ok(())
        })?;
    }
    Ok(Changed { changed, interfaces })
}

/// Puts interfaces in shadow, or ends that. If all are in shadow, the others stay so.
fn of_interfaces(arguments: &Arguments, is_shadow: bool, instance: &mut Instance) -> Result<Changed> {
    let attached = instance.attachments.list()?;
    let is_attached = |name: &&String| attached.iter().any(|attachment| attachment.is_on(name));
    if let Some(name) = arguments.interface.iter().find(|name| !is_attached(name)) {
        return Err(Error::NotAttachedTo { name: name.clone() }.into());
    }
    let is_named = |attachment: &Attachment| arguments.interface.iter().any(|name| attachment.is_on(name));
    let running = instance.settings()?;
    let now = Settings { shadow: is_shadow && running.shadow, ..running };
    let ends_shadow = running.shadow && !is_shadow;
    let interfaces = ssh::protect(instance, arguments.force, |instance| {
        check(arguments, instance, &Settings { shadow: !is_shadow || running.shadow, ..running }, &now)?;
        if !ends_shadow {
            return instance.set_shadow(&is_named, is_shadow);
        }
        // All marks are there before shadow ends in one step. Until then, they change nothing.
        let others = instance.set_shadow(&|attachment| !is_named(attachment), true)?;
        instance.set_shadow(&is_named, false)?;
        let requested = RequestedSettings { shadow: Some(false), ..RequestedSettings::default() };
        if let Err(error) = instance.upgrade(&requested) {
            // The operator must see the failure itself, not one of undoing.
            let _ = instance.set_shadow(&|attachment| others.contains(&attachment.name), false);
            return Err(error);
        }
        Ok(arguments.interface.clone())
    })?;
    Ok(Changed { changed: if ends_shadow { vec!["shadow"] } else { Vec::new() }, interfaces })
}

/// Checks that the change makes no SSH session worse off.
fn check(arguments: &Arguments, instance: &Instance, before: &Settings, after: &Settings) -> Result<(), Error> {
    ssh::Guard::of(&instance.tables, arguments.force)?.check_settings(&instance.tables, before, after)
}
