//! One limit across a fleet: what this host reports to the engine, and the shares that it gets.

pub mod address;
pub mod certificates;
pub mod engine;
pub mod error;
pub mod gossip;
pub mod hosts;
pub mod kept;
pub mod key;
pub mod members;
pub mod outage;
mod reason;
mod script;
pub mod status;
pub mod way;
mod wire;
