//! The `ratelimit` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ratelimit::cli::main()
}
