//! Traffic in a sandbox: senders and receivers.

mod bursts;
pub(crate) mod flood;
pub(crate) mod frame_receiver;
mod inject;
mod interrupt;
pub(crate) mod raw;
pub(crate) mod sink;
pub(crate) mod stamped;
pub(crate) mod tun;
mod walk;
pub(crate) mod wireguard;
