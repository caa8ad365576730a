//! The program, its links and its maps. No other room knows aya, netlink and bpffs.

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
pub mod sys;
pub mod tables;
pub mod trial;

/// The version of this build, with its source commit.
pub const VERSION: &str = env!("RATELIMIT_VERSION");

pub use error::Error;
pub use instance::Instance;
