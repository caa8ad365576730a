//! Traffic in a sandbox: senders and receivers.

pub mod ear;
pub mod flood;
mod interrupt;
pub mod raw;
pub mod sink;
mod walk;
