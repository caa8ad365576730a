//! The IPv4 header.

use network_types::ip::Ipv4Hdr;
use ratelimit_common::{identity::source::Source, reason::Reason};

use crate::{
    packet::headers::Frame,
    parse::{
        outcome::{Headers, Parsed, Payload, Stop, cut, defective, no_source, unreadable},
        ports,
    },
};

/// Bits of the flags and the fragment offset that only later fragments have (RFC 791, section 3.1).
pub(crate) const LATER_FRAGMENT: u16 = 0x1fff;

/// Reads the header at `offset`, and the services behind it.
///
/// # Errors
///
/// Returns [`Stop`] for a packet that has no source, is dropped at once, or lies in other buffers.
#[inline(always)]
pub(crate) fn parse(frame: &impl Frame, offset: usize) -> Result<Parsed, Stop> {
    ports::parsed(headers(frame, offset)?, frame, offset, false)
}

/// Reads the header at `offset`.
///
/// # Errors
///
/// As for [`parse`].
#[inline(always)]
fn headers(frame: &impl Frame, offset: usize) -> Result<Headers, Stop> {
    let header = frame.read::<Ipv4Hdr>(offset).ok_or_else(|| no_source(frame))?;
    if header.version() != 4 {
        return Err(unreadable(Reason::Malformed).into());
    }
    let source = Source::v4(header.src_addr);
    let (header_length, total) = (usize::from(header.ihl()), usize::from(header.tot_len()));
    if header_length < Ipv4Hdr::LEN || total < header_length {
        return defective(source, Reason::Malformed);
    }
    let end = offset + total;
    if end > frame.length() as usize {
        return cut(frame, source);
    }
    if u16::from_be_bytes(header.frags) & LATER_FRAGMENT != 0 {
        return Ok(Headers { source, payload: None });
    }
    Ok(Headers { source, payload: Some(Payload { protocol: header.proto, begin: offset + header_length, end }) })
}
