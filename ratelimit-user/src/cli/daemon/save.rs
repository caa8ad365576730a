//! `ratelimit save`.

use std::{
    io::{self, Write as _},
    path::Path,
};

use anyhow::Result;

use crate::{
    cli::print::{answer::Answer, output::Output},
    config::save,
    dataplane::{Instance, sys::host},
};

pub(crate) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let instance = Instance::open(pins)?;
    // A slow reader must not keep other commands waiting for the lock.
    if output.json {
        let document = save::document(&instance)?;
        drop(instance);
        output.print(&document, |_| Ok(()))?;
    } else {
        let text = save::save(&instance)?;
        drop(instance);
        io::stdout().lock().write_all(text.as_bytes())?;
    }
    Ok(Answer::Done)
}
