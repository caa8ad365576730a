//! The bytecode that the product loads, run by the kernel under an injected clock.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod algorithms;
mod arrivals;
mod bans;
mod bypass;
mod captures;
mod differential;
mod events;
mod front;
mod jumbo;
mod moving;
mod parents;
mod parse;
mod precedence;
mod precision;
mod race;
mod redirects;
mod replies;
mod rules;
mod schedules;
mod services;
mod size;
mod strangers;

use ratelimit::dataplane::program::loader::Settings;

/// Whether cells stand in front of the buckets. The program `plain` has the same tests without.
const FRONT: bool = true;

/// The settings of a test.
fn settings() -> Settings {
    Settings { cells: 1 << 14, ..Settings::default() }
}
