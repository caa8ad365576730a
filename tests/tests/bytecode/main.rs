//! The bytecode that the product loads, run by the kernel under an injected clock.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bypass;
mod captures;
mod differential;
mod jumbo;
mod parents;
mod parse;
mod precedence;
mod precision;
mod race;
mod redirects;
mod rules;
mod schedules;
mod services;
mod size;
