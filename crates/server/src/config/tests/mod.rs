//! Tests of the tables about requests: what they mean, and that the daemon finds the same problems.

use ratelimit_base::tables::problem::Problem;
use ratelimit_daemon::config::{self, Config};

use super::checked;

mod callers;
mod console;
mod requests;
mod stop_at_nic;

/// Reads a file as the daemon does.
fn parse_all(text: &str) -> Result<Config, Vec<Problem>> {
    config::parse(text, checked)
}
