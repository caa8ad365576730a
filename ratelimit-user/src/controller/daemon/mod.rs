//! The daemon: it waits for its file, signals and requests.

pub(crate) mod links;
pub(crate) mod messages;
pub(crate) mod request;
pub mod socket;
pub mod wait;
pub(crate) mod watch;
