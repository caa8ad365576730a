//! Tables that only the daemon needs: metrics, the fleet, the state file, CrowdSec, and the sockets of applications and of
//! readers.

pub mod crowdsec;
pub mod kept;
pub mod metrics;
pub mod remote;
pub mod state;
pub mod stops;
pub mod view;
