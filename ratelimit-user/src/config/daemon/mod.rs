//! Tables that only the daemon needs: metrics, the fleet, the state file the socket of applications, and that of
//! readers.

mod certificates;
mod engine;
pub(super) mod file;
pub mod fleet;
pub mod metrics;
mod secret;
pub mod state;
pub mod stops;
pub mod view;
