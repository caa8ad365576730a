//! Typed handles on the program, its links and its maps. The only place that knows aya, netlink and bpffs.

pub mod attachment;
mod bpf;
pub mod bulk;
pub mod capacities;
pub mod cells;
pub mod clocks;
pub mod costs;
pub mod error;
mod expiry;
mod filter;
mod fresh;
pub mod gauges;
pub mod host;
pub mod instance;
pub mod interface;
mod loading;
pub mod log;
pub mod mapped;
pub mod memory;
mod moving;
pub mod object;
pub mod policies;
mod replace;
pub mod resolve;
pub mod rules;
pub mod services;
mod shapes;
mod stage;
pub mod tables;
mod takeover;
pub mod target;
pub mod terms;
mod tracked;
mod upgrade;

pub use error::Error;
pub use instance::Instance;
