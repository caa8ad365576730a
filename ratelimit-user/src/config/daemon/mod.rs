//! Tables that only the daemon needs: metrics, the fleet, the state file, CrowdSec and the socket of applications.

mod certificates;
pub mod crowdsec;
mod engine;
pub(super) mod file;
pub mod fleet;
pub(crate) mod kept;
pub mod metrics;
pub(crate) mod remote;
mod secret;
pub mod state;
pub mod stops;
