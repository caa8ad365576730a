//! The tests of limits once more, with a bucket for every source: the plain limiter, `--front off`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../bytecode/algorithms.rs"]
mod algorithms;
#[path = "../bytecode/arrivals.rs"]
mod arrivals;
#[path = "../bytecode/bans.rs"]
mod bans;
#[path = "../bytecode/jumbo.rs"]
mod jumbo;
#[path = "../bytecode/parents.rs"]
mod parents;
#[path = "../bytecode/precedence.rs"]
mod precedence;
#[path = "../bytecode/precision.rs"]
mod precision;
#[path = "../bytecode/race.rs"]
mod race;
#[path = "../bytecode/redirects.rs"]
mod redirects;
#[path = "../bytecode/rules.rs"]
mod rules;
#[path = "../bytecode/schedules.rs"]
mod schedules;
#[path = "../bytecode/services.rs"]
mod services;

use ratelimit::dataplane::program::loader::Settings;

/// No cells stand in front of the buckets.
const FRONT: bool = false;

/// The settings of a test.
fn settings() -> Settings {
    Settings { cells: 0, ..Settings::default() }
}
