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
    controller::{
        daemon,
        socket::{self, Request, SocketError},
    },
    dataplane::{Instance, host},
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Even if the file shuts out the SSH session that this is started from
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Serialize)]
struct Reloaded {
    message: String,
}

pub(super) fn run(arguments: &Arguments, pins: &Path) -> Result<Answer> {
    host::check()?;
    daemon::run(pins, &arguments.config, arguments.force)?;
    Ok(Answer::Done)
}

/// Prints what is in force as a file.
pub(super) fn save(pins: &Path) -> Result<Answer> {
    host::check()?;
    let text = save::save(&Instance::open(pins)?)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Answer::Done)
}

pub(super) fn reload(pins: &Path, output: Output) -> Result<Answer> {
    match socket::ask(pins, socket::DAEMON, Request::Reload)? {
        socket::Answer::Done(message) => {
            let reloaded = Reloaded { message };
            output.print(&reloaded, |out| writeln!(out, "{}", reloaded.message))?;
            Ok(Answer::Done)
        }
        socket::Answer::Failed(message) => bail!("nothing was changed: {message}"),
        socket::Answer::Left(_) => bail!(SocketError::NoAnswer),
    }
}
