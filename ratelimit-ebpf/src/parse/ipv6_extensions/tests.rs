//! The walk on packets of every shape.

extern crate std;
use std::vec::Vec;

use crate::{packet::frame::Packet, parse::ipv6_extensions::*};

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;
const UDP: u8 = 17;

/// Bytes ahead of the first header.
const BEGIN: usize = 54;

/// Eight headers of all kinds.
const CHAIN: [u8; 8] = [HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, ROUTING, HOP_BY_HOP];

/// What is ahead of the first header.
fn packet() -> Vec<u8> {
    Vec::from([0xff; BEGIN])
}

/// Adds a header that has `units` in its length field and `bytes` bytes.
fn add(packet: &mut Vec<u8>, next: u8, units: u8, bytes: usize) {
    let header = packet.len();
    packet.resize(header + bytes, 0);
    packet[header] = next;
    packet[header + 1] = units;
}

/// Headers of these kinds, as short as they can be, before UDP.
fn chain(kinds: &[u8]) -> Vec<u8> {
    let mut packet = packet();
    for next in kinds.iter().skip(1).chain(&[UDP]) {
        add(&mut packet, *next, 0, LENGTH);
    }
    packet
}

fn walked(packet: &[u8], first: u8) -> Walked {
    Walked::of(&Packet::from(packet), BEGIN, packet.len(), first)
}

fn udp_behind(bytes: usize) -> Walked {
    Walked::Payload { protocol: UDP, begin: BEGIN + bytes }
}

#[test]
fn five_kinds_are_looked_through() {
    let kinds: Vec<u8> = (0..=u8::MAX).filter(|kind| is_extension(*kind)).collect();
    assert_eq!(kinds, [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION]);
}

#[test]
fn each_header_alone_is_as_long_as_it_says() {
    for kind in [HOP_BY_HOP, ROUTING, DESTINATION] {
        for (units, bytes) in [(0, 8), (1, 16), (7, 64), (255, 2_048)] {
            let mut packet = packet();
            add(&mut packet, UDP, units, bytes);
            assert_eq!(walked(&packet, kind), udp_behind(bytes), "{kind}, {units}");
        }
    }
    for (units, bytes) in [(0, 8), (1, 12), (4, 24), (255, 1_028)] {
        let mut packet = packet();
        add(&mut packet, UDP, units, bytes);
        assert_eq!(walked(&packet, AUTHENTICATION), udp_behind(bytes), "{units}");
    }
    // Where the others have their length, a fragment's header has a reserved byte.
    for reserved in [0, 1, 255] {
        let mut packet = packet();
        add(&mut packet, UDP, reserved, 8);
        assert_eq!(walked(&packet, FRAGMENT), udp_behind(8), "{reserved}");
    }
}

#[test]
fn a_fragment_is_a_later_one_by_its_offset_alone() {
    for (high, low, is_later) in
        [(0, 0, false), (0, 1, false), (0, 7, false), (0, 8, true), (1, 0, true), (0x80, 1, true), (255, 255, true)]
    {
        let mut packet = chain(&[FRAGMENT]);
        (packet[BEGIN + 2], packet[BEGIN + 3]) = (high, low);
        let expected = if is_later { Walked::LaterFragment } else { udp_behind(8) };
        assert_eq!(walked(&packet, FRAGMENT), expected, "{high:#x}, {low:#x}");
        for kind in [HOP_BY_HOP, ROUTING, DESTINATION, AUTHENTICATION] {
            assert_eq!(walked(&packet, kind), udp_behind(8), "the same bytes are no fragment's in {kind}");
        }
    }
}

#[test]
fn behind_a_later_fragment_nothing_is_read() {
    let mut packet = chain(&[DESTINATION, FRAGMENT, DESTINATION]);
    packet[BEGIN + 8 + 3] = 8;
    packet.truncate(BEGIN + 16);
    assert_eq!(walked(&packet, DESTINATION), Walked::LaterFragment);
}

#[test]
fn eight_headers_are_looked_through_and_nine_are_not() {
    for count in 1..=CHAIN.len() {
        assert_eq!(walked(&chain(&CHAIN[..count]), CHAIN[0]), udp_behind(count * LENGTH), "{count}");
    }
    for kind in CHAIN {
        let nine = [&CHAIN[..], &[kind]].concat();
        assert_eq!(walked(&chain(&nine), CHAIN[0]), Walked::TooMany, "{kind}");
    }
    let mut longest = packet();
    for next in [DESTINATION, DESTINATION, DESTINATION, DESTINATION, DESTINATION, DESTINATION, DESTINATION, UDP] {
        add(&mut longest, next, u8::MAX, 2_048);
    }
    assert_eq!(walked(&longest, DESTINATION), udp_behind(8 * 2_048));
}

#[test]
fn a_chain_cut_at_any_byte_does_not_reach_its_payload() {
    let whole = chain(&CHAIN);
    for end in BEGIN..whole.len() {
        assert_eq!(walked(&whole[..end], CHAIN[0]), Walked::Truncated, "ends at {end}");
        // The packet goes on there, but in another buffer.
        let first_buffer = Packet::from(&whole[..end]);
        assert_eq!(Walked::of(&first_buffer, BEGIN, whole.len(), CHAIN[0]), Walked::Unread, "split at {end}");
    }
    for kind in CHAIN.into_iter().filter(|kind| *kind != FRAGMENT) {
        let mut long = packet();
        let bytes = if kind == AUTHENTICATION { 24 } else { 40 };
        add(&mut long, UDP, 4, bytes);
        for end in BEGIN..long.len() {
            assert_eq!(walked(&long[..end], kind), Walked::Truncated, "{kind} ends at {end}");
        }
    }
}
