//! A packet of a capture, or why there is none.

use std::io;

use super::link::{self, Link};

/// A packet of a capture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// Nanoseconds since 1970. None if the capture does not tell.
    pub(crate) time: Option<u64>,
    /// What the packet begins with.
    pub(crate) link: Link,
    /// Bytes of the packet when it was captured. The capture may have fewer.
    pub(crate) length: u32,
    /// The captured bytes.
    pub(crate) bytes: &'a [u8],
    /// Whether the host has sent the packet. None if the capture does not tell.
    pub(crate) is_outgoing: Option<bool>,
}

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureError {
    #[error("is empty: expected a capture, as `tcpdump -w` writes it")]
    Empty,
    #[error("is no capture: expected the format pcap or pcapng, as `tcpdump -w` writes it")]
    NoCapture,
    #[error("has packets of {}: capture on an interface with Ethernet or IP packets", link::name(*.0))]
    Link(u32),
    #[error("is damaged after packet {after}: {what}")]
    Damaged {
        /// The number of packets before.
        after: u64,
        what: &'static str,
    },
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// What is wrong with the next part of a capture.
#[derive(Debug)]
pub(super) enum Bad {
    Wrong(&'static str),
    Link(u32),
    Io(io::Error),
}

impl From<io::Error> for Bad {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
