//! `ratelimit set`.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::{
    cli::print::{answer::Answer, output::Output},
    controller::socket::client,
    dataplane::{
        Instance,
        program::{loader::RequestedSettings, values},
        sys::host,
    },
    settings::SettingsArguments,
    ssh,
};

// Here, no interface can follow `--shadow`, so its value may be a word of its own.
#[derive(Debug, clap::Args)]
#[command(mut_arg("shadow", |shadow| shadow.require_equals(false)))]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Change the settings even if an SSH session is then restricted or blocked
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Serialize)]
struct Changed {
    /// Names of the settings that have changed.
    changed: Vec<&'static str>,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let requested = arguments.settings.requested()?;
    ensure!(
        requested != RequestedSettings::default(),
        "no setting is given: `ratelimit help set` lists them, such as `ratelimit set --shadow on`"
    );
    let mut instance = Instance::open(pins)?;
    let running = instance.settings()?;
    let now = requested.or(running);
    let changed = values::changed(&running, &now);
    if !changed.is_empty() {
        ssh::protect(&mut instance, arguments.force, |instance| {
            ssh::Guard::of(&instance.tables, arguments.force)?.check_settings(&instance.tables, &running, &now)?;
            instance.upgrade(&requested)
        })?;
    }
    let is_nothing = changed.is_empty();
    output.print(&Changed { changed }, |out| {
        for line in arguments.settings.lines() {
            writeln!(out, "{line}")?;
        }
        if is_nothing {
            writeln!(out, "nothing has changed: this was in force already")?;
        } else if client::is_listening(pins) {
            writeln!(out, "a daemon runs: its file decides again at the next reload, so change the file, too")?;
        }
        Ok(())
    })?;
    Ok(Answer::Done)
}
