//! The `ratelimit` command.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    unset_empty();
    ratelimit_daemon::controller::downloads::child().unwrap_or_else(ratelimit::cli::main)
}

/// Removes empty variables from the environment: they count as unset, here and for every library.
fn unset_empty() {
    for (name, _) in env::vars_os().filter(|(_, value)| value.is_empty()) {
        // SAFETY: this process has only this thread yet.
        unsafe { env::remove_var(name) };
    }
}
