//! The daemon itself: its process, its reloads, its part in a fleet and CrowdSec.

#[cfg(feature = "crowdsec")]
pub(in crate::controller::metrics) mod crowdsec;
pub(in crate::controller::metrics) mod fleet;
pub(in crate::controller::metrics) mod lists;
pub(in crate::controller::metrics) mod process;
pub(in crate::controller::metrics) mod reloads;
pub(in crate::controller::metrics) mod stops;
