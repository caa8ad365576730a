//! Packets, built header by header or recorded from real programs. Senders are in `traffic`.

pub(crate) mod captures;
pub(crate) mod encapsulations;
pub(crate) mod frame;
pub(crate) mod segment;
pub(crate) mod wrap;
