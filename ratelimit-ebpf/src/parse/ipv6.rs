//! The IPv6 header.

use network_types::ip::Ipv6Hdr;
use ratelimit_common::{
    identity::{
        class::{ANY, Classes},
        service::ICMPV6,
        source::Source,
    },
    reason::Reason,
};

use crate::{
    bpf::settings,
    packet::frame::Packet,
    parse::{
        ipv6_extensions::{self, Walked},
        outcome::{Parsed, defective, no_source, unreadable},
        ports::Payload,
    },
};

/// Reads the header at `offset`, and the extension headers behind it.
///
/// # Errors
///
/// Returns the reason of a packet that has no source or is dropped at once.
#[inline(always)]
pub(crate) fn parse(packet: &Packet, offset: usize) -> Result<Parsed, Reason> {
    let header: &Ipv6Hdr = packet.header(offset).ok_or_else(|| no_source(packet))?;
    if header.version() != 6 {
        return Err(unreadable(Reason::Malformed));
    }
    let source = Source::v6(header.src_addr, 128);
    let begin = offset + Ipv6Hdr::LEN;
    let end = begin + usize::from(header.payload_len());
    if end > packet.length() as usize {
        return defective(source, Reason::Truncated);
    }
    let mut payload = Payload { protocol: header.next_hdr, begin, end };
    if ipv6_extensions::is_extension(header.next_hdr) {
        match Walked::of(packet, begin, end, header.next_hdr) {
            Walked::Payload { protocol, begin } => (payload.protocol, payload.begin) = (protocol, begin),
            Walked::LaterFragment => return Ok(Parsed { source, classes: Classes::from(ANY) }),
            // Like cut-off ports: the host must not be the first to see the service of a fragment.
            Walked::Truncated if settings::has_services() => return Err(Reason::Truncated),
            Walked::Truncated => return defective(source, Reason::Truncated),
            Walked::TooMany => return Err(Reason::TooManyHeaders),
        }
    } else if header.next_hdr == ICMPV6 && header.hop_limit == u8::MAX && is_neighbour_discovery(packet, begin, end) {
        return Err(Reason::LinkDiscovery);
    }
    let classes = if settings::has_services() { payload.classes(packet)? } else { Classes::from(ANY) };
    Ok(Parsed { source, classes })
}

/// Returns whether the payload is a router or neighbour solicitation or advertisement, or a redirect (RFC 4861, section
/// 4). A hop limit of 255 proves that it comes from this link. Behind an extension header it is not exempt.
#[inline(always)]
fn is_neighbour_discovery(packet: &Packet, begin: usize, end: usize) -> bool {
    let kind: Option<&u8> = packet.header(begin);
    end > begin && kind.is_some_and(|kind| matches!(kind, 133..=137))
}
