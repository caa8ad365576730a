//! `ratelimit fleet status | rules`.

mod ask;
mod log;
mod rules;
mod status;

use std::path::Path;

use anyhow::Result;

use crate::cli::print::{answer::Answer, output::Output};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the engine, the hosts, and the sources that share a limit
    ///
    /// Asks the daemon of this host. Exit status 1 if the engine does not answer, so that local limits apply.
    Status,
    /// Change rules that all hosts of the fleet share
    #[command(subcommand)]
    Rules(Box<rules::Command>),
}

impl Command {
    /// Returns whether it changes something.
    pub(crate) fn is_change(&self) -> bool {
        matches!(self, Self::Rules(command) if command.is_change())
    }
}

pub(crate) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        Command::Status => status::run(pins, output),
        Command::Rules(command) => rules::run(command, pins, output),
    }
}
