//! A packet as the program gets it.

use std::net::IpAddr;

use ratelimit_dataplane::sys::link_type::FirstHeader;

use super::{
    capture::{link::Link, packet::Packet},
    headers::{Cut, Needed},
};

/// The most bytes that the program gets: an IP packet of 64 KiB behind an Ethernet header with two tags.
const MOST: usize = 65_535 + 22;

/// The most bytes without frames of several buffers: a page without what the kernel needs besides.
const MOST_LINEAR: usize = 3_400;

/// The fewest bytes that the kernel runs a program with.
const FEWEST: usize = 14;

/// Bytes of both addresses in an Ethernet header, and of a VLAN tag.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// The most VLAN tags of a packet that is not dropped.
const MOST_TAGS: usize = 2;

/// Packets that the host has sent, in the headers of Linux.
const OUTGOING: u8 = 4;

/// The packet that is judged next.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Vec<u8>,
    most: usize,
    needed: Needed,
}

/// What is known of a packet without its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) first: FirstHeader,
    /// Bytes, from the first header on, when it was captured. The frame may have fewer.
    pub(super) length: u64,
    /// Its sender and its receiver. None if it is not IP.
    pub(super) addresses: Option<[IpAddr; 2]>,
    /// Whether the captured bytes end before its addresses.
    pub(super) has_lost_addresses: bool,
    /// Whether they end before other bytes of the headers that decide about it.
    pub(super) has_lost_headers: bool,
    /// Whether the host has sent it. None if the capture does not tell.
    pub(super) is_outgoing: Option<bool>,
    /// Whether the kernel can run the program with it.
    pub(super) is_long_enough: bool,
}

impl Frame {
    /// Returns an empty frame. `several` tells whether the kernel takes frames of several buffers.
    pub(super) fn new(several: bool, needed: Needed) -> Self {
        Self { bytes: Vec::new(), most: if several { MOST } else { MOST_LINEAR }, needed }
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes a packet. Where fewer bytes were captured, zeroes follow, since the program counts all. Only bytes that do not
    /// decide about a packet are zeroes in one that can be judged.
    pub(super) fn set(&mut self, packet: &Packet<'_>) -> Known {
        // The headers of Linux: where the type of the packet is, where its direction is, and how long they are.
        let cooked = match packet.link {
            Link::Ethernet | Link::Ip => None,
            Link::Cooked => Some((14, 1, 16)),
            Link::Cooked2 => Some((0, 10, 20)),
        };
        self.bytes.clear();
        let (mut captured, mut length, mut is_outgoing) = (packet.bytes, packet.length as usize, packet.is_outgoing);
        if let Some((kind, direction, header)) = cooked {
            is_outgoing = captured.get(direction).map(|kind| *kind == OUTGOING);
            let kind = captured.get(kind..kind + 2).unwrap_or_default();
            self.bytes.extend([0; ADDRESSES]);
            self.bytes.extend_from_slice(kind);
            captured = captured.get(header..).unwrap_or_default();
            length = length.saturating_sub(header) + FEWEST;
        }
        let room = self.most.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(captured.get(..room).unwrap_or(captured));
        let first = if packet.link == Link::Ip { FirstHeader::Ip } else { FirstHeader::Ethernet };
        let is_cut = packet.bytes.len() < packet.length as usize;
        let ip = match first {
            FirstHeader::Ethernet => behind_ethernet(&self.bytes),
            FirstHeader::Ip => Some(&self.bytes[..]),
        };
        let (addresses, has_lost_addresses) = (ip.and_then(addresses), is_cut && ip.is_some_and(is_short));
        let has_lost_headers = ip.is_some_and(|captured| {
            let length = length.min(self.most).saturating_sub(self.bytes.len() - captured.len());
            let is_ethernet = first == FirstHeader::Ethernet;
            is_cut && addresses.is_some() && self.needed.are_lost(Cut { captured, length, is_ethernet })
        });
        self.bytes.resize(length.min(self.most), 0);
        let is_long_enough = self.bytes.len() >= FEWEST;
        Known {
            first,
            length: length as u64,
            addresses,
            has_lost_addresses,
            has_lost_headers,
            is_outgoing,
            is_long_enough,
        }
    }
}

/// Returns what follows an Ethernet header and its tags. None if its type does not say IP.
fn behind_ethernet(frame: &[u8]) -> Option<&[u8]> {
    let mut rest = frame.get(ADDRESSES..).unwrap_or_default();
    for _ in 0..MOST_TAGS {
        if let [0x81, 0x00, ..] | [0x88, 0xa8, ..] = rest {
            rest = rest.get(TAG..).unwrap_or_default();
        }
    }
    match rest {
        [0x08, 0x00, packet @ ..] | [0x86, 0xdd, packet @ ..] => Some(packet),
        [] | [_] => Some(&[]),
        _ => None,
    }
}

/// Returns the sender and the receiver of an IP packet.
fn addresses(packet: &[u8]) -> Option<[IpAddr; 2]> {
    let of_v4 = |from| Some(IpAddr::from(*packet.get(from..)?.first_chunk::<4>()?));
    let of_v6 = |from| Some(IpAddr::from(*packet.get(from..)?.first_chunk::<16>()?));
    match packet.first()? >> 4 {
        4 => Some([of_v4(12)?, of_v4(16)?]),
        6 => Some([of_v6(8)?, of_v6(24)?]),
        _ => None,
    }
}

/// Returns whether an IP packet ends before its addresses do.
fn is_short(packet: &[u8]) -> bool {
    packet.first().is_none_or(|first| matches!(first >> 4, 4 | 6)) && addresses(packet).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of an IPv4 packet from 192.0.2.1 with 60 bytes.
    const PACKET: [u8; 20] = [0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];

    fn set(link: Link, header: &[u8], length: u32) -> (Known, Vec<u8>) {
        let (mut frame, bytes) = (Frame::new(true, Needed::default()), [header, &PACKET].concat());
        let known = frame.set(&Packet { time: None, link, length, bytes: &bytes, is_outgoing: None });
        (known, frame.bytes)
    }

    #[test]
    fn each_link_has_a_sender_and_its_length() {
        let addresses = Some(["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap()));
        let tagged = [&[0; 12][..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]].concat();
        let cooked = [&[0, 0, 0, 1][..], &[0; 10], &[8, 0]].concat();
        let cooked2 = [&[8, 0][..], &[0; 18]].concat();
        for (link, header, length) in [
            (Link::Ethernet, &tagged, 82),
            (Link::Ip, &vec![], 60),
            (Link::Cooked, &cooked, 74),
            (Link::Cooked2, &cooked2, 74),
        ] {
            let (known, bytes) = set(link, header, header.len() as u32 + 60);
            assert_eq!((known.addresses, known.length, bytes.len()), (addresses, length, length as usize), "{link:?}");
            let tells = matches!(link, Link::Cooked | Link::Cooked2);
            assert!(known.is_outgoing == tells.then_some(false) && known.is_long_enough && !known.has_lost_addresses);
        }
        let sent = [&[0, 4][..], &cooked[2..]].concat();
        assert_eq!(set(Link::Cooked, &sent, 76).0.is_outgoing, Some(true));
    }

    #[test]
    fn short_and_huge_packets_have_bounds() {
        let (known, bytes) = set(Link::Ip, &[], u32::MAX);
        assert_eq!((known.length, bytes.len()), (u64::from(u32::MAX), MOST));
        for length in 0..20 {
            let packet = Packet { time: None, link: Link::Cooked2, length, bytes: &[], is_outgoing: None };
            assert_eq!(Frame::new(false, Needed::default()).set(&packet).addresses, None);
        }
    }

    #[test]
    fn lost_addresses_are_those_of_packets_that_can_be_ip() {
        let ethernet = |kind: [u8; 2], packet: &[u8]| [&[0; 12][..], &kind, packet].concat();
        let whole = ethernet([8, 0], &PACKET);
        for (bytes, length, is_lost) in [
            (&whole[..], 74, false),
            (&whole[..33], 74, true),
            (&whole[..33], 33, false),
            (&whole[..24], 74, true),
            (&whole[..13], 74, true),
            (&[], 74, true),
            (&ethernet([0x81, 0], &[0, 1, 8]), 74, true),
            (&ethernet([0x86, 0xdd], &[0x60; 39]), 74, true),
            (&ethernet([0x86, 0xdd], &[0x60; 40]), 74, false),
            // ARP, and a packet of no version of IP.
            (&ethernet([8, 6], &[]), 60, false),
            (&ethernet([8, 0], &[0x50]), 60, false),
        ] {
            let packet = Packet { time: None, link: Link::Ethernet, length, bytes, is_outgoing: None };
            assert_eq!(Frame::new(true, Needed::default()).set(&packet).has_lost_addresses, is_lost, "{bytes:?}");
        }
    }
}
