//! `ratelimit serve`.

use std::path::PathBuf;

use anyhow::Result;
use ratelimit_server::serve;

use crate::cli::print::answer::Answer;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration file with the tables serve and check
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Answer> {
    serve::run(&arguments.config)?;
    Ok(Answer::Done)
}
