//! Where a call comes from.

use std::net::IpAddr;

/// The address of a caller. Callers of a Unix socket have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) struct Peer(pub(in crate::serve) IpAddr);
