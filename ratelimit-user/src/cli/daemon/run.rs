//! `ratelimit run`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ratelimit_daemon::controller::daemon::run;
use ratelimit_dataplane::sys::host;

use super::REQUEST_TABLES;
use crate::cli::print::answer::Answer;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Apply the file even if it blocks SSH sessions, now and at every later reload
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path) -> Result<Answer> {
    host::check()?;
    run::run(pins, &arguments.config, arguments.force, REQUEST_TABLES)?;
    Ok(Answer::Done)
}
