//! Results of parsing, and the reasons of packets that cannot be parsed.

use ratelimit_common::{
    identity::{class::Classes, source::Source},
    reason::Reason,
};

use crate::{
    bpf::settings,
    packet::{headers::Frame, transport::Transport},
};

/// Result of reading a packet's headers.
pub struct Parsed {
    /// Sender: an IPv4 address, or an IPv6 address with all its bits.
    pub source: Source,
    /// Services of the packet. Without rules for services there is only
    /// [`ANY`](ratelimit_common::identity::class::ANY).
    pub classes: Classes,
    /// Where its connection is read, if sockets are looked up.
    pub transport: Transport,
}

/// What the IP headers of a packet say.
pub(crate) struct Headers {
    /// Sender: an IPv4 address, or an IPv6 address with all its bits.
    pub(crate) source: Source,
    /// The payload. A later fragment and a defective packet have none.
    pub(crate) payload: Option<Payload>,
}

/// The payload of an IP packet that is not a later fragment.
pub(crate) struct Payload {
    /// Number of its protocol.
    pub(crate) protocol: u8,
    /// Its offset in the frame.
    pub(crate) begin: usize,
    /// Its end according to the IP header. Never less than `begin`.
    pub(crate) end: usize,
}

/// The reason for which parsing stops.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "bpf"), derive(Debug))]
pub enum Stop {
    /// The packet has no source, or is dropped at once.
    Because(Reason),
    /// The next header or the end of the packet lies in a buffer that this frame cannot read.
    /// [`Scattered`](crate::packet::scattered::Scattered) frames can read all, so they never give this result.
    Unread,
}

impl From<Reason> for Stop {
    #[inline(always)]
    fn from(reason: Reason) -> Self {
        Self::Because(reason)
    }
}

/// Returns the result for a packet that ends before its source address.
#[inline(always)]
pub(crate) fn no_source(frame: &impl Frame) -> Stop {
    if frame.has_more() { Stop::Unread } else { unreadable(Reason::Truncated).into() }
}

/// Returns the reason of a packet without a readable source: `reason`, unless such packets are set to pass.
#[inline(always)]
pub(crate) fn unreadable(reason: Reason) -> Reason {
    if settings::is_on(&settings::PASS_MALFORMED) { Reason::Unreadable } else { reason }
}

/// Returns the outcome for a packet with a readable source and a defect behind it. Where such packets are set to pass,
/// the limits of the source decide.
#[inline(always)]
pub(crate) fn defective(source: Source, reason: Reason) -> Result<Headers, Stop> {
    if settings::is_on(&settings::PASS_MALFORMED) { Ok(Headers { source, payload: None }) } else { Err(reason.into()) }
}

/// Returns the outcome for a packet that ends behind the known end of its frame.
#[inline(always)]
pub(crate) fn cut(frame: &impl Frame, source: Source) -> Result<Headers, Stop> {
    if frame.is_measured() { defective(source, Reason::Truncated) } else { Err(Stop::Unread) }
}
