//! `ratelimit status`: it reads the status of an instance, and prints it as text or JSON.

mod activity;
mod admission;
mod denied;
mod details;
pub(crate) mod diagnosis;
mod differences;
mod file;
pub(crate) mod interface;
mod map_memory;
mod proofs;
mod report;
pub(crate) mod rules;
mod since;
mod spared;
mod summary;
mod unknown;

use std::path::{Path, PathBuf};

use anyhow::Result;
use ratelimit_daemon::controller::socket::client;
use ratelimit_dataplane::{Instance, sys::host};

use self::since::Earlier;
use crate::cli::print::{answer::Answer, output::Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Also show reasons, buckets, cells, clocks and memory. JSON always contains them
    #[arg(short, long)]
    verbose: bool,
    /// Count totals from the moment of this file, which `ratelimit status -j > FILE` has written
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let earlier = arguments.since.as_deref().map(Earlier::read).transpose()?;
    // The daemon may wait for the lock of the instance, so it is asked first.
    let file = client::file_state(pins);
    let instance = Instance::open(pins)?;
    let mut status = report::read(&instance, file)?;
    drop(instance);
    if let Some(earlier) = earlier {
        earlier.take_from(&mut status)?;
    }
    output.print(&status, |out| {
        summary::write(out, &status)?;
        if arguments.verbose {
            writeln!(out)?;
            details::write(out, &status)?;
        }
        Ok(())
    })?;
    Ok(Answer::Done)
}
