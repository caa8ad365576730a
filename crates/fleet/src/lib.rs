//! One limit across the hosts of a fleet: what a host reports to the engine, the shares that it gets, and the engine without
//! a server (`gossip`). It reads the table `[fleet]` and speaks with Redis; it must not contain aya, nor decide what a host
//! does with a share. The daemon and the server for requests use it.

pub mod address;
pub mod engine;
pub mod error;
pub mod gossip;
pub mod hosts;
pub mod kept;
pub mod key;
pub mod members;
pub mod outage;
mod primary;
mod reason;
mod script;
pub mod table;
pub mod way;
mod wire;
