//! Traffic in a sandbox: senders and receivers.

pub(crate) mod flood;
pub(crate) mod frame_receiver;
mod interrupt;
pub(crate) mod raw;
pub(crate) mod sink;
mod walk;
