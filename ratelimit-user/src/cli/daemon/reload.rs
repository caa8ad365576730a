//! `ratelimit reload`.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::{
    cli::print::{answer::Answer, output::Output},
    controller::socket::{
        client::{self, SocketError},
        folder::DAEMON,
        request::{Caller, Reply},
    },
    ssh,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Apply the file even if it blocks SSH sessions
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Serialize)]
struct Reloaded {
    message: String,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    let caller = Caller { session: ssh::session(), force: arguments.force };
    match client::ask(pins, DAEMON, caller.request())? {
        Reply::Done(message) => {
            let reloaded = Reloaded { message };
            output.print(&reloaded, |out| writeln!(out, "{}", reloaded.message))?;
            Ok(Answer::Done)
        }
        Reply::Failed(message) => bail!(message),
        Reply::Left(_) | Reply::State(_) => bail!(SocketError::NoAnswer),
    }
}
