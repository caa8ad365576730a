//! How an interface is attached.

use serde::{Deserialize, Serialize};

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In the driver. Attaching fails if the driver has no native XDP.
    Native,
    /// In the network stack.
    Generic,
    /// In the driver if it has native XDP, otherwise in the network stack.
    Auto,
}

/// How to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Where the program runs.
    pub mode: Mode,
    /// Whether to remove another program from the interface.
    pub replace: bool,
    /// Origin of the attachment: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
    /// Whether the interface is in shadow, although others may not be.
    pub shadow: bool,
}
