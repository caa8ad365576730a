//! The `ratelimit` command.

use std::{env, ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    unset_empty();
    ratelimit_daemon::controller::downloads::child().unwrap_or_else(ratelimit::cli::main)
}

/// Removes empty variables from the environment: they count as unset, here and for every library. A name with `=` is none
/// that anybody reads.
fn unset_empty() {
    let is_name = |name: &OsString| !name.as_encoded_bytes().contains(&b'=');
    for (name, _) in env::vars_os().filter(|(name, value)| value.is_empty() && is_name(name)) {
        // SAFETY: this process has only this thread yet.
        unsafe { env::remove_var(name) };
    }
}
