//! Commands that only read and print.

pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod metrics;
pub(crate) mod replay;
pub(crate) mod sources;
pub(crate) mod status;
pub(crate) mod suggest;
#[cfg(feature = "server")]
pub(crate) mod usage;
pub(crate) mod why;
