//! `ratelimit status`: it reads the status of an instance, and prints it as text or JSON.

mod activity;
mod admission;
mod details;
mod diagnosis;
mod differences;
mod file;
pub(crate) mod interface;
mod map_memory;
mod report;
mod rules;
mod summary;

use std::path::Path;

use anyhow::Result;

use crate::{
    cli::print::{answer::Answer, output::Output},
    controller::socket::client,
    dataplane::{Instance, sys::host},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Also show reasons, buckets, cells, clocks and memory. JSON always contains them
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    // The daemon may wait for the lock of the instance, so it is asked first.
    let file = client::file_state(pins);
    let instance = Instance::open(pins)?;
    let status = report::read(&instance, file)?;
    drop(instance);
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
