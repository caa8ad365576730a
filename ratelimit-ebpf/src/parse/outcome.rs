//! Results of parsing: the source of a packet, its services and where its connection is read, or the reason of a packet
//! that cannot be parsed.

use core::ops::Deref;

use ratelimit_common::{
    identity::{
        class::{ANY, Classes},
        service::{SCTP, TCP, UDP},
        source::Source,
    },
    reason::Reason,
};

use crate::{
    bpf::settings,
    maps::rules,
    packet::{context::Transport, frame::Frame},
};

/// Result of reading a packet's headers.
pub struct Parsed {
    /// Sender: an IPv4 address, or an IPv6 address with all its bits.
    pub source: Source,
    /// Services of the packet. Without rules for services there is only [`ANY`].
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
    /// [`Scattered`](crate::packet::frame::Scattered) frames can read all, so they never give this result.
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
pub(crate) fn cut_off(frame: &impl Frame, source: Source) -> Result<Headers, Stop> {
    if frame.is_measured() { defective(source, Reason::Truncated) } else { Err(Stop::Unread) }
}

/// Bytes of the shortest headers. Hosts do not accept shorter ones.
pub(crate) const TCP_LENGTH: usize = 20;
pub(crate) const UDP_LENGTH: usize = 8;
const SCTP_LENGTH: usize = 12;

/// Byte of the TCP flags, and two of the flags.
pub(crate) const FLAGS: usize = 13;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;

/// Returns the source of a packet with an IP header at `network`, and its classes, which are read if there are rules for
/// services.
///
/// # Errors
///
/// As for [`classes()`].
#[inline(always)]
pub(crate) fn parsed(
    Headers { source, payload }: Headers,
    frame: &impl Frame,
    network: usize,
    is_ipv6: bool,
) -> Result<Parsed, Stop> {
    let Some(payload) = payload else {
        return Ok(Parsed { source, classes: Classes::from(ANY), transport: Transport::NONE });
    };
    let classes = if settings::has_services() { classes(&payload, frame)? } else { Classes::from(ANY) };
    let transport = if settings::looks_up_sockets() { transport(&payload, network, is_ipv6) } else { Transport::NONE };
    Ok(Parsed { source, classes, transport })
}

/// Returns the place of the header that has both ports of a connection, if this payload begins with a whole one.
#[inline(always)]
fn transport(Payload { protocol, begin, end }: &Payload, network: usize, is_ipv6: bool) -> Transport {
    let (is_tcp, length) = match *protocol {
        TCP => (true, TCP_LENGTH),
        UDP => (false, UDP_LENGTH),
        _ => return Transport::NONE,
    };
    if begin + length > *end { Transport::NONE } else { Transport::new(is_tcp, is_ipv6, network, *begin) }
}

/// Returns the classes of a packet with this payload, narrowest first.
///
/// # Errors
///
/// Returns the reason to drop a packet whose header ends before its ports, whatever is set to pass. If it passed,
/// only the host that joins the fragments would see the ports.
#[inline(always)]
fn classes(payload: &Payload, frame: &impl Frame) -> Result<Classes, Stop> {
    let Some(services) = rules::services() else { return Ok(Classes::from(ANY)) };
    Ok(match payload.protocol {
        TCP => {
            let header = header::<TCP_LENGTH>(payload, frame)?;
            let is_new = header[FLAGS] & (SYN | ACK) == SYN;
            (if is_new { &services.tcp_syn } else { &services.tcp })[port(&header)]
        }
        UDP => services.udp[port(&*header::<UDP_LENGTH>(payload, frame)?)],
        SCTP => services.sctp[port(&*header::<SCTP_LENGTH>(payload, frame)?)],
        protocol => services.protocols[usize::from(protocol)],
    })
}

/// Returns the header of a transport protocol.
#[inline(always)]
fn header<const N: usize>(payload: &Payload, frame: &impl Frame) -> Result<impl Deref<Target = [u8; N]>, Stop> {
    if payload.begin + N > payload.end {
        return Err(Reason::Truncated.into());
    }
    frame.read::<[u8; N]>(payload.begin).ok_or(Stop::Unread)
}

/// Returns the destination port, which is at the same offset in all three protocols.
#[inline(always)]
fn port<const N: usize>(header: &[u8; N]) -> usize {
    const { assert!(N >= 4) };
    usize::from(u16::from_be_bytes([header[2], header[3]]))
}
