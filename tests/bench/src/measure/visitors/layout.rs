//! Where the server, its visitors and the flood are.

use std::{net::Ipv4Addr, time::Duration};

/// The CPU of the server, the visitors and the reception.
pub(super) const CPU: usize = 0;
/// Everything outside of the victim except the flood: an address and the length of its prefix.
pub(super) const OUTSIDE: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 9, 0, 0), 16);
/// The visitors.
pub(super) const VISITORS: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 9, 128, 0), 17);
/// Bytes of the page.
pub(super) const PAGE: usize = 100_000;
/// Time between two visitors. Together, they stay below the limit of unknown sources.
pub(super) const SPACING: Duration = Duration::from_millis(16);

/// The CPU that sends a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The one that receives it. It sends ahead of all other work, as a network card interrupts all other work.
    Same,
    /// Another one, as fast as it can. Its frames have a ring of their own, which the same CPU empties as all others.
    Other,
}
