//! What the program makes of frames: a source, no IP, or malformed.

use ratelimit::dataplane::rules::{self, Target};
use ratelimit_common::{policy::Policy, reason::Reason, rule::COMMAND};
use ratelimit_tests::{Bytecode, Frame};

fn denying_everything() -> Bytecode {
    let mut bytecode = Bytecode::load();
    rules::set(&mut bytecode.tables, Target::Default, &Policy::DENIED, None, COMMAND).unwrap();
    bytecode
}

fn frames() -> [Frame; 2] {
    [Frame::udp([192, 0, 2, 1], 9), Frame::udp([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 9)]
}

#[test]
fn up_to_two_tags_are_looked_through_and_a_third_is_no_way_around() {
    let bytecode = denying_everything();
    for frame in frames() {
        assert_eq!(bytecode.reason(&frame.bytes()), Reason::Denied);
        assert_eq!(bytecode.reason(&frame.clone().tag(1).bytes()), Reason::Denied);
        assert_eq!(bytecode.reason(&frame.clone().tag(1).tag(2).bytes()), Reason::Denied);
        assert_eq!(bytecode.reason(&frame.tag(1).tag(2).tag(3).bytes()), Reason::TooManyTags);
    }
    // 802.1Q twice, as some switches do.
    let mut twice = Frame::udp([192, 0, 2, 1], 9).tag(1).tag(2).bytes();
    twice[12..14].copy_from_slice(&[0x81, 0x00]);
    assert_eq!(bytecode.reason(&twice), Reason::Denied);
}

#[test]
fn what_is_no_ip_passes() {
    let bytecode = denying_everything();
    for ether_type in [0x8035u16, 0x88cc, 0x0000, 0xffff] {
        let mut frame = Frame::udp([192, 0, 2, 1], 9).bytes();
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        assert_eq!(bytecode.reason(&frame), Reason::NotIp, "{ether_type:#06x}");
    }
}

/// An IPv6 frame whose payload is this ICMPv6 message, sent with this hop limit.
fn icmpv6(kind: u8, hop_limit: u8) -> Vec<u8> {
    let mut frame = Frame::udp([0xfe80, 0, 0, 0, 0, 0, 0, 1], 9).bytes();
    frame[20] = 58;
    frame[21] = hop_limit;
    frame[54] = kind;
    frame
}

#[test]
fn what_the_own_link_needs_passes_whatever_a_rule_says_and_nothing_else_does() {
    let bytecode = denying_everything();
    let mut arp = Frame::udp([192, 0, 2, 1], 9).bytes();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(bytecode.reason(&arp), Reason::LinkDiscovery);
    for kind in 0..=255 {
        let expected = if (133..=137).contains(&kind) { Reason::LinkDiscovery } else { Reason::Denied };
        assert_eq!(bytecode.reason(&icmpv6(kind, 255)), expected, "type {kind}");
        assert_eq!(bytecode.reason(&icmpv6(kind, 254)), Reason::Denied, "type {kind} from another link");
    }
    // Behind an extension header, and where the payload is only padding.
    let mut extended = icmpv6(135, 255);
    extended[20] = 0;
    assert_eq!(bytecode.reason(&extended), Reason::Denied);
    let mut empty = icmpv6(135, 255);
    empty[18..20].copy_from_slice(&[0, 0]);
    assert_eq!(bytecode.reason(&empty), Reason::Denied);
}

#[test]
fn link_discovery_is_capped() {
    let mut bytecode = denying_everything();
    bytecode.set_time(1_000_000_000);
    let frame = icmpv6(135, 255);
    bytecode.repeat(&frame, 30_000);
    assert_eq!(bytecode.count(Reason::LinkDiscovery), 10_000);
    bytecode.set_time(1_500_000_000);
    bytecode.repeat(&frame, 30_000);
    assert_eq!(bytecode.count(Reason::LinkDiscovery), 15_000);
    assert_eq!(bytecode.count(Reason::LinkDiscoveryOverCap), 45_000);
}

#[test]
fn a_frame_cut_short_at_any_byte_is_malformed() {
    let bytecode = denying_everything();
    for frame in frames() {
        for frame in [frame.clone(), frame.clone().tag(1), frame.tag(1).tag(2)] {
            let bytes = frame.bytes();
            // The kernel runs no frame shorter than an Ethernet header.
            for length in 14..bytes.len() {
                assert_eq!(bytecode.reason(&bytes[..length]), Reason::Malformed, "{frame:?} cut to {length}");
            }
            assert_eq!(bytecode.reason(&bytes), Reason::Denied);
            assert_eq!(
                bytecode.reason(&[bytes, vec![0; 20]].concat()),
                Reason::Denied,
                "padding is no part of the packet"
            );
        }
    }
}

#[test]
fn headers_that_contradict_themselves_are_malformed() {
    let bytecode = denying_everything();
    let [v4, v6] = frames().map(|frame| frame.bytes());
    let with = |frame: &[u8], offset: usize, bytes: &[u8]| {
        let mut frame = frame.to_vec();
        frame[offset..offset + bytes.len()].copy_from_slice(bytes);
        frame
    };
    for version in (0..16u8).filter(|version| *version != 4) {
        assert_eq!(bytecode.reason(&with(&v4, 14, &[version << 4 | 5])), Reason::Malformed);
    }
    for words in 0..5 {
        assert_eq!(bytecode.reason(&with(&v4, 14, &[0x40 | words])), Reason::Malformed);
    }
    for total in [0u16, 19, 47, u16::MAX] {
        assert_eq!(bytecode.reason(&with(&v4, 16, &total.to_be_bytes())), Reason::Malformed, "total length {total}");
    }
    for version in (0..16u8).filter(|version| *version != 6) {
        assert_eq!(bytecode.reason(&with(&v6, 14, &[version << 4])), Reason::Malformed);
    }
    assert_eq!(bytecode.reason(&with(&v6, 18, &u16::MAX.to_be_bytes())), Reason::Malformed);
}
