//! `ratelimit reload`.

use std::path::Path;

use anyhow::{Result, bail};
use ratelimit_daemon::{
    controller::socket::{
        client::{self, SocketError},
        folder::DAEMON,
        request::{Caller, Reloaded, Reply},
    },
    ssh,
};

use crate::cli::print::{answer::Answer, output::Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Apply the file even if it blocks SSH sessions
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    let caller = Caller { session: ssh::session(), force: arguments.force, declines: ssh::is_declined() };
    match client::ask(pins, DAEMON, caller.request())? {
        reply @ (Reply::Done(_) | Reply::Applied(_)) => {
            let reloaded = match reply {
                Reply::Applied(reloaded) => reloaded,
                // A daemon of an earlier version names no rules.
                Reply::Done(message) => {
                    Reloaded { message, replaced: Vec::new(), removed_allows: Vec::new(), unusable_lists: Vec::new() }
                }
                _ => bail!(SocketError::NoAnswer),
            };
            output.print(&reloaded, |out| writeln!(out, "{}", reloaded.message))?;
            // The rest of the file is in force.
            Ok(if reloaded.unusable_lists.is_empty() { Answer::Done } else { Answer::Negative })
        }
        Reply::Failed(message) => bail!(message),
        Reply::Left(_)
        | Reply::State(_)
        | Reply::Fleet(_)
        | Reply::Rules(_)
        | Reply::Stops(_)
        | Reply::StopEvents(_) => bail!(SocketError::NoAnswer),
    }
}
