//! Packets, built header by header. Senders are in `traffic`.

pub(crate) mod frame;
pub(crate) mod segment;
pub mod wrap;
