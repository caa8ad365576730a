//! Tables that only the daemon needs: metrics, the fleet, the state file, CrowdSec, and the sockets of applications and of
//! readers.

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
pub mod view;
