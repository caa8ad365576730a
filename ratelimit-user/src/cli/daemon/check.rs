//! `ratelimit check`.

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::{
    cli::print::{
        answer::Answer,
        output::{Output, count},
    },
    config::{
        self,
        problem::{ConfigError, Problem},
    },
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration file
    file: PathBuf,
}

#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    /// Empty if the file can be applied.
    problems: Vec<Problem>,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<Answer> {
    let file = arguments.file.display().to_string();
    match config::read(&arguments.file) {
        Ok(config) => {
            let (interfaces, rules) = (count(config.interfaces.len(), "interface"), count(config.rules.len(), "rule"));
            let checked = Checked { file, problems: Vec::new() };
            output.print(&checked, |out| writeln!(out, "{}: good, with {interfaces} and {rules}", checked.file))?;
            Ok(Answer::Done)
        }
        Err(ConfigError::Wrong { problems, .. }) => {
            let checked = Checked { file, problems };
            output.print(&checked, |out| {
                checked.problems.iter().try_for_each(|problem| writeln!(out, "{}:{problem}", checked.file))
            })?;
            Ok(Answer::Negative)
        }
        Err(error) => Err(error.into()),
    }
}
