//! Packets that programs of this machine do not send: recorded ones, and encapsulations.

pub(crate) mod captures;
pub(crate) mod encapsulations;
