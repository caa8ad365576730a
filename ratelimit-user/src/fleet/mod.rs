//! One limit across a fleet: what this host reports to the engine, and the shares that it gets.

pub mod engine;
pub mod key;
