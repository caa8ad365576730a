//! The `ratelimit` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ratelimit_daemon::controller::downloads::child().unwrap_or_else(ratelimit::cli::main)
}
