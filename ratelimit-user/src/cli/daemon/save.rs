//! `ratelimit save`.

use std::{
    io::{self, Write as _},
    path::Path,
};

use anyhow::Result;
use ratelimit_daemon::{
    config::{self, save},
    controller::socket::client,
};
use ratelimit_dataplane::{Instance, sys::host};

use crate::cli::print::{answer::Answer, output::Output};

pub(crate) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    // The daemon may wait for the lock of the instance, so it is asked first.
    let awaited = awaited(pins);
    let instance = Instance::open(pins)?;
    // A slow reader must not keep other commands waiting for the lock.
    if output.json {
        let document = save::document(&instance, &awaited)?;
        drop(instance);
        output.print(&document, |_| Ok(()))?;
    } else {
        let text = save::save(&instance, &awaited)?;
        drop(instance);
        io::stdout().lock().write_all(text.as_bytes())?;
    }
    Ok(Answer::Done)
}

/// Returns the interfaces that a daemon waits for, because they do not exist.
fn awaited(pins: &Path) -> Vec<config::Interface> {
    let unattached = client::file_state(pins).map(|state| state.unattached).unwrap_or_default();
    unattached.into_iter().filter(|unattached| !unattached.exists).map(|unattached| unattached.interface).collect()
}
