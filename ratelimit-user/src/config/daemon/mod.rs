//! Tables that only the daemon needs: metrics, the fleet and the state file.

pub mod fleet;
pub mod metrics;
mod secret;
pub mod state;
