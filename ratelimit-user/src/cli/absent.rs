//! Commands that need a feature which this build lacks.

use std::ffi::OsString;

use anyhow::{Result, bail};

use super::print::answer::Answer;

/// Any words, which nothing reads.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<OsString>,
}

/// Refuses the command.
pub(crate) fn answer(feature: &str) -> Result<Answer> {
    bail!("built without `{feature}`: use a build of ratelimit with all features")
}
