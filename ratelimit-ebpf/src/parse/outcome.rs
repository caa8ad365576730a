//! Results of parsing, and the reasons of packets that cannot be parsed.

use ratelimit_common::{
    identity::{
        class::{ANY, Classes},
        source::Source,
    },
    reason::Reason,
};

use crate::{bpf::settings, packet::frame::Packet};

/// Result of reading a packet's headers.
pub struct Parsed {
    /// Sender: an IPv4 address, or an IPv6 address with all its bits.
    pub source: Source,
    /// Services of the packet. Without rules for services there is only [`ANY`].
    pub classes: Classes,
}

/// Returns the reason of a packet that ends before its source address.
#[inline(always)]
pub(crate) fn no_source(packet: &Packet) -> Reason {
    if packet.has_more() { Reason::Unreadable } else { unreadable(Reason::Truncated) }
}

/// Returns the reason of a packet without a readable source: `reason`, unless such packets are set to pass.
#[inline(always)]
pub(crate) fn unreadable(reason: Reason) -> Reason {
    if settings::is_on(&settings::PASS_MALFORMED) { Reason::Unreadable } else { reason }
}

/// Returns the outcome for a packet with a readable source and a defect behind it. Where such packets are set to pass,
/// the limits of the source decide.
#[inline(always)]
pub(crate) fn defective(source: Source, reason: Reason) -> Result<Parsed, Reason> {
    if settings::is_on(&settings::PASS_MALFORMED) {
        Ok(Parsed { source, classes: Classes::from(ANY) })
    } else {
        Err(reason)
    }
}
