//! Headers of IPv4 and IPv6.

use super::{
    draft::{Draft, Length},
    kind::Kind,
    transport::{payload, protocol},
};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
/// Hop-by-hop options are rare, since they are valid only as the first header.
const KINDS: [u8; 9] =
    [HOP_BY_HOP, ROUTING, ROUTING, FRAGMENT, FRAGMENT, AUTHENTICATION, AUTHENTICATION, DESTINATION, DESTINATION];

/// Appends an IPv4 packet.
pub(super) fn ipv4(draft: &mut Draft) {
    draft.word(IPV4);
    draft.kinds.add(Kind::Ipv4);
    let begin = draft.frame.len();
    let options = if draft.random.percent(20) { draft.random.below(11) } else { 0 };
    if options > 0 {
        draft.kinds.add(Kind::Ipv4Options);
    }
    let protocol = protocol(draft, 1);
    draft.byte(0x45 + options as u8);
    draft.bytes(1);
    draft.word(0);
    draft.bytes(2);
    let fragment = match draft.random.below(100) {
        0..40 => 0,
        40..80 => 0x4000,
        80..90 => {
            draft.kinds.add(Kind::Ipv4FirstFragment);
            0x2000
        }
        _ => {
            draft.kinds.add(Kind::Ipv4LaterFragment);
            // Any offset, last fragment or not.
            draft.random.among(&[0, 0x2000]) | (draft.random.below(0x1fff) as u16 + 1)
        }
    };
    draft.word(fragment);
    draft.bytes(1);
    draft.byte(protocol);
    // Checksum, source, destination.
    draft.bytes(2 + 4 + 4 + 4 * options);
    payload(draft, protocol);
    draft.lengths.extend([Length::LowNibble(begin), Length::Word(begin + 2), Length::Word(begin + 2)]);
    draft.set_word(begin + 2, draft.frame.len() - begin);
}

/// Appends an IPv6 packet.
pub(super) fn ipv6(draft: &mut Draft) {
    draft.word(IPV6);
    draft.kinds.add(Kind::Ipv6);
    let begin = draft.frame.len();
    let protocol = protocol(draft, 58);
    let class = draft.random.below(16) as u8;
    draft.byte(0x60 | class);
    draft.bytes(3);
    draft.word(0);
    let mut next_at = draft.frame.len();
    draft.byte(protocol);
    let hop_limit = draft.random.among(&[255, 255, 64, 254, 0]);
    draft.byte(hop_limit);
    if draft.random.percent(20) {
        draft.kinds.add(Kind::LinkLocal);
        // All of fe80::/10.
        draft.byte(0xfe);
        let low = draft.random.below(0x40) as u8;
        draft.byte(0x80 | low);
        draft.bytes(14);
    } else {
        draft.byte(0x20);
        draft.bytes(15);
    }
    draft.bytes(16);
    let headers = headers(draft);
    for count in 0..headers {
        let kind = if count == 0 && draft.random.percent(30) { HOP_BY_HOP } else { draft.random.among(&KINDS) };
        draft.frame[next_at] = kind;
        next_at = draft.frame.len();
        extension(draft, kind, protocol);
    }
    let payload_at = draft.frame.len();
    payload(draft, protocol);
    let is_discovery = matches!(draft.frame.get(payload_at), Some(133..=137)) && protocol == 58;
    if is_discovery && headers == 0 && hop_limit == 255 {
        draft.kinds.add(Kind::NeighbourDiscovery);
    }
    draft.lengths.extend([Length::Word(begin + 4); 2]);
    draft.set_word(begin + 4, draft.frame.len() - begin - 40);
}

/// Returns a random number of extension headers.
fn headers(draft: &mut Draft) -> usize {
    match draft.random.below(100) {
        0..40 => 0,
        40..75 => draft.random.below(3) + 1,
        75..90 => draft.random.below(5) + 4,
        _ => {
            let headers = draft.random.among(&[8, 8, 9, 9, 10]);
            if headers > 8 {
                draft.kinds.add(Kind::NineHeaders);
            }
            headers
        }
    }
}

/// Appends one extension header before `next`.
fn extension(draft: &mut Draft, kind: u8, next: u8) {
    draft.byte(next);
    let units = match draft.random.below(100) {
        0..70 => 0,
        70..96 => draft.random.below(4),
        _ => draft.random.below(32),
    };
    match kind {
        FRAGMENT => {
            // A reserved byte without meaning.
            draft.bytes(1);
            let is_later = draft.random.percent(25);
            let offset = if is_later { draft.random.below(0x1fff) as u16 + 1 } else { 0 };
            let flags = draft.random.below(8) as u16;
            draft.word(offset << 3 | flags);
            draft.bytes(4);
            draft.kinds.add(if is_later { Kind::LaterFragment } else { Kind::FirstFragment });
        }
        AUTHENTICATION => {
            draft.lengths.push(Length::Byte(draft.frame.len()));
            draft.byte(units as u8 + 1);
            draft.bytes(10 + 4 * units);
            draft.kinds.add(Kind::Authentication);
        }
        _ => {
            draft.lengths.push(Length::Byte(draft.frame.len()));
            draft.byte(units as u8);
            draft.bytes(6 + 8 * units);
            draft.kinds.add(match kind {
                HOP_BY_HOP => Kind::HopByHop,
                ROUTING => Kind::Routing,
                _ => Kind::Destination,
            });
        }
    }
}
