//! Every command through the real binary, and every error.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attaching;
mod errors;
mod gauges;
mod listing;
mod logging;
mod rules;
mod services;
mod settings;
mod ssh;
