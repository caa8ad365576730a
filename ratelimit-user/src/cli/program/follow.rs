//! Prints the messages of the kernel program, for `attach --log-level`.

use std::path::Path;

use anyhow::{Context as _, Result};
use ratelimit_dataplane::{Instance, program::loader::RequestedSettings, sys::kernel_log};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::print::answer::Answer;

/// Prints the messages until Ctrl-C. Then replaces the program by one without messages.
pub(crate) fn run(instance: Instance, pins: &Path) -> Result<Answer> {
    let program_id = instance.programs()?.ethernet().info().context("cannot read the program")?.id();
    drop(instance);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Signals of Ctrl-C, the end of the SSH session, and the service manager.
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
    // Another command may have removed the instance.
    if let Ok(mut instance) = Instance::open(pins) {
        instance.upgrade(&RequestedSettings::default())?;
    }
    Ok(Answer::Done)
}
