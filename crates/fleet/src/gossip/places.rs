//! Where the hosts of a fleet without a server are.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Where this host listens, and where the others are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The UDP port of this host.
    pub port: u16,
    /// Their addresses, as far as they are known.
    pub peers: Vec<IpAddr>,
}
