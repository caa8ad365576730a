//! Tables that only the daemon needs: metrics, the fleet and the state file.

mod certificates;
mod engine;
pub(super) mod file;
pub mod fleet;
pub mod metrics;
mod secret;
pub mod state;
