//! The daemon itself: its process, its reloads and its part in a fleet.

pub(in crate::controller::metrics) mod fleet;
pub(in crate::controller::metrics) mod lists;
pub(in crate::controller::metrics) mod process;
pub(in crate::controller::metrics) mod reloads;
pub(in crate::controller::metrics) mod stops;
