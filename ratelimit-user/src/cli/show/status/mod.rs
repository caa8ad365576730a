//! `ratelimit status`: it reads the status of an instance, and prints it as text or JSON.

mod differences;
pub(crate) mod interface;
mod map_memory;
mod report;
mod text;

use std::path::Path;

use anyhow::Result;

use crate::{
    cli::print::{answer::Answer, output::Output},
    controller::socket::client,
    dataplane::{Instance, sys::host},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Also show cells, clocks, lost races and the memory of each map. JSON always contains them
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
    output.print(&status, |out| text::write(out, &status, arguments.verbose))?;
    Ok(Answer::Done)
}
