//! Prints the kernel side's messages, for `attach --log-level`.

use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

use super::Answer;
use crate::dataplane::{Instance, program::loader::Wanted, sys::kernel_log};

/// Prints what the kernel side says, until Ctrl-C, and then puts the silent program back.
pub(super) fn run(instance: Instance, pins: &Path) -> Result<Answer> {
    let program_id = instance.program()?.info().context("cannot read the program")?.id();
    drop(instance);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Ctrl-C, the end of the SSH session, or the service manager.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let done = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        anyhow::Ok(kernel_log::follow(program_id, done).await?)
    })?;
    // Another command may have detached meanwhile.
    if let Ok(mut instance) = Instance::open(pins) {
        instance.upgrade(&Wanted::default())?;
    }
    Ok(Answer::Done)
}
