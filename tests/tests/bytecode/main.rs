//! The bytecode that the product loads, run by the kernel under an injected clock.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod parse;
mod precision;
mod race;
mod rules;
mod schedules;
mod size;
