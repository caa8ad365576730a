//! `ratelimit check`: problems of a file, and with `--host` those that it has on this host.

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::{
    cli::print::{
        answer::Answer,
        output::{Output, count},
    },
    config::{
        self, Config,
        problem::{ConfigError, Problem},
    },
    dataplane::{Error, sys::interface},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration file
    file: PathBuf,
    /// Also check that the interfaces of the file exist on this host, and that ratelimit can limit them
    #[arg(long)]
    host: bool,
}

#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    /// Empty if the file can be applied.
    problems: Vec<Problem>,
    /// Problems of the interfaces on this host. None without `--host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Vec<HostProblem>>,
}

/// An interface of the file that cannot be limited now.
#[derive(Debug, Serialize)]
struct HostProblem {
    interface: String,
    message: String,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<Answer> {
    let file = arguments.file.display().to_string();
    match config::read(&arguments.file) {
        Ok(config) => {
            let (interfaces, rules) = (count(config.interfaces.len(), "interface"), count(config.rules.len(), "rule"));
            let lists = match config.lists.len() {
                0 => String::new(),
                lists => format!(", and {}", count(lists, "list")),
            };
            let host = arguments.host.then(|| on_host(&config)).transpose()?;
            let checked = Checked { file, problems: Vec::new(), host };
            let on_host = checked.host.as_deref().unwrap_or_default();
            output.print(&checked, |out| {
                if on_host.is_empty() {
                    return writeln!(out, "{}: good, with {interfaces} and {rules}{lists}", checked.file);
                }
                on_host.iter().try_for_each(|problem| writeln!(out, "{}: {}", checked.file, problem.message))
            })?;
            Ok(if on_host.is_empty() { Answer::Done } else { Answer::Negative })
        }
        Err(ConfigError::Wrong { problems, .. }) => {
            let checked = Checked { file, problems, host: None };
            output.print(&checked, |out| {
                checked.problems.iter().try_for_each(|problem| writeln!(out, "{}:{problem}", checked.file))
            })?;
            Ok(Answer::Negative)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the problems of the file's interfaces on this host.
fn on_host(config: &Config) -> Result<Vec<HostProblem>, Error> {
    let all = interface::list()?;
    let mut problems = Vec::new();
    for config::Interface { name, wait, .. } in &config.interfaces {
        let message = match all.iter().find(|interface| interface.name == *name) {
            Some(interface) => interface.first_header().err().map(|error| error.to_string()),
            None if *wait => Some(format!(
                "{name} does not exist on this host: the daemon waits for it, and limits the other interfaces"
            )),
            None => {
                Some(format!("{name} does not exist on this host, and has wait = false: the daemon refuses the file"))
            }
        };
        problems.extend(message.map(|message| HostProblem { interface: name.clone(), message }));
    }
    Ok(problems)
}
