//! Loads the program, attaches it, and reads and writes its maps. It alone knows aya, netlink and the BPF file system, and
//! carries the kernel object; it must not contain clap, HTTP or Redis. The daemon and the command `ratelimit` use it.

pub mod attach;
pub mod debts;
pub mod decision;
pub mod error;
pub mod instance;
pub mod leases;
pub mod lists;
pub mod pins;
pub mod program;
pub mod readings;
pub mod rules;
pub mod spared;
pub mod sys;
pub mod tables;
pub mod trial;

/// The version of this build, with its source commit.
pub const VERSION: &str = env!("RATELIMIT_VERSION");

pub use error::Error;
pub use instance::Instance;
