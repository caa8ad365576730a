//! The IPv6 header.

use network_types::ip::Ipv6Hdr;
use ratelimit_common::{
    identity::{service::ICMPV6, source::Source},
    reason::Reason,
};

use crate::{
    bpf::settings,
    packet::headers::Frame,
    parse::{
        ipv6_extensions::{self, Walked},
        outcome::{Headers, Parsed, Payload, Stop, cut, defective, no_source, unreadable},
        ports,
    },
};

/// Reads the header at `offset`, and the extension headers behind it. Neighbour discovery is exempt only on `ETHERNET`:
/// through a tunnel it comes from anywhere.
///
/// # Errors
///
/// Returns [`Stop`] for a packet that has no source, is dropped at once, or lies in other buffers.
#[inline(always)]
pub(crate) fn parse<const ETHERNET: bool>(frame: &impl Frame, offset: usize) -> Result<Parsed, Stop> {
    ports::parsed(headers::<ETHERNET>(frame, offset)?, frame, offset, true)
}

/// Reads the same headers, without the services.
///
/// # Errors
///
/// As for [`parse`].
#[inline(always)]
fn headers<const ETHERNET: bool>(frame: &impl Frame, offset: usize) -> Result<Headers, Stop> {
    let header = frame.read::<Ipv6Hdr>(offset).ok_or_else(|| no_source(frame))?;
    if header.version() != 6 {
        return Err(unreadable(Reason::Malformed).into());
    }
    let source = Source::v6(header.src_addr, 128);
    let begin = offset + Ipv6Hdr::LEN;
    let end = begin + usize::from(header.payload_len());
    if end > frame.length() as usize {
        return cut(frame, source);
    }
    let mut payload = Payload { protocol: header.next_hdr, begin, end };
    if ipv6_extensions::is_extension(header.next_hdr) {
        match Walked::of(frame, begin, end, header.next_hdr) {
            Walked::Payload { protocol, begin } => (payload.protocol, payload.begin) = (protocol, begin),
            Walked::LaterFragment => return Ok(Headers { source, payload: None }),
            // Like cut-off ports: the host must not be the first to see the service of a fragment.
            Walked::Truncated if settings::has_services() => return Err(Reason::Truncated.into()),
            Walked::Truncated => return defective(source, Reason::Truncated),
            Walked::TooMany => return Err(Reason::TooManyHeaders.into()),
            Walked::Unread => return Err(Stop::Unread),
        }
    } else if ETHERNET
        && header.next_hdr == ICMPV6
        && header.hop_limit == u8::MAX
        && is_neighbour_discovery(frame, begin, end)?
    {
        return Err(Reason::LinkDiscovery.into());
    }
    Ok(Headers { source, payload: Some(payload) })
}

/// Returns whether the payload is a router or neighbour solicitation or advertisement, or a redirect (RFC 4861, section
/// 4). A hop limit of 255 proves that it comes from this link. Behind an extension header it is not exempt.
#[inline(always)]
fn is_neighbour_discovery(frame: &impl Frame, begin: usize, end: usize) -> Result<bool, Stop> {
    if end == begin {
        return Ok(false);
    }
    let kind = frame.read::<u8>(begin).ok_or(Stop::Unread)?;
    Ok(matches!(*kind, 133..=137))
}
