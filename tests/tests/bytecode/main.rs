//! The bytecode that the product loads, run by the kernel under an injected clock.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod buckets;
mod cells;
mod connections;
mod front;
mod limits;
mod maps;
mod meters;
mod overlimit;
mod parse;
mod program;
mod reply;
mod rules;
mod telemetry;

use ratelimit_dataplane::program::loader::Settings;

use crate::front::Front;

/// Returns the settings of a test that needs cells.
fn settings() -> Settings {
    Front::On.settings()
}
