//! Typed handles on the program, its links and its maps. The only place that knows aya, netlink and bpffs.

pub mod attachment;
mod bpf;
pub mod error;
pub mod host;
pub mod instance;
pub mod interface;
pub mod log;
pub mod object;
pub mod policies;
pub mod resolve;
pub mod rules;
pub mod tables;
mod takeover;

pub use error::Error;
pub use instance::Instance;
