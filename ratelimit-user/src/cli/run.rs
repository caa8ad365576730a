//! `ratelimit run`, `ratelimit reload` and `ratelimit save`.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use serde::Serialize;

use super::{Answer, output::Output};
use crate::{
    config::save,
    controller::daemon::{
        socket::{self, Caller, SocketError},
        wait,
    },
    dataplane::{Instance, sys::host},
    ssh,
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Even if the file shuts out SSH sessions, now or whenever it is read again
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReloadArguments {
    /// Even if the file shuts out SSH sessions
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Serialize)]
struct Reloaded {
    message: String,
}

pub(super) fn run(arguments: &Arguments, pins: &Path) -> Result<Answer> {
    host::check()?;
    wait::run(pins, &arguments.config, arguments.force)?;
    Ok(Answer::Done)
}

/// Prints what is in force as a file.
pub(super) fn save(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let instance = Instance::open(pins)?;
    if output.json {
        output.print(&save::document(&instance)?, |_| Ok(()))?;
    } else {
        let text = save::save(&instance)?;
        // Whoever reads it may be slow.
        drop(instance);
        std::io::stdout().lock().write_all(text.as_bytes())?;
    }
    Ok(Answer::Done)
}

pub(super) fn reload(arguments: &ReloadArguments, pins: &Path, output: Output) -> Result<Answer> {
    let caller = Caller { session: ssh::session(), force: arguments.force };
    match socket::ask(pins, socket::DAEMON, caller.request())? {
        socket::Answer::Done(message) => {
            let reloaded = Reloaded { message };
            output.print(&reloaded, |out| writeln!(out, "{}", reloaded.message))?;
            Ok(Answer::Done)
        }
        socket::Answer::Failed(message) => bail!(message),
        socket::Answer::Left(_) => bail!(SocketError::NoAnswer),
    }
}
