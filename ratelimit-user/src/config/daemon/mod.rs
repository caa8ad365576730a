//! Tables that only the daemon needs: metrics, the fleet, the state file, CrowdSec and the socket of applications.

mod certificates;
pub mod crowdsec;
mod engine;
pub(super) mod file;
pub mod fleet;
pub mod metrics;
mod secret;
pub mod state;
pub mod stops;
