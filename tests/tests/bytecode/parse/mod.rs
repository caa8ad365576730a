//! Parsing: a frame has a source, is not IP, malformed or truncated.

mod bypass;
mod captures;
mod differential;
mod jumbo;
mod raw_ip;
mod short_buffers;

use std::net::Ipv6Addr;

use ratelimit_common::{limits::policy::Policy, reason::Reason, rules::rule::COMMAND};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::{batch, target::Target},
};
use ratelimit_tests::{Bytecode, EXTENSIONS, Frame, Wrap, framed};

fn denying_everything() -> Bytecode {
    denying_with(crate::settings())
}

fn denying_with(settings: Settings) -> Bytecode {
    let mut bytecode = Bytecode::with(settings);
    batch::set(&mut bytecode.tables, Target::DEFAULT, &Policy::DENIED.into(), None, COMMAND).unwrap();
    bytecode
}

fn frames() -> [Frame; 2] {
    [Frame::udp([192, 0, 2, 1], 9), Frame::udp([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 9)]
}

#[test]
fn two_vlan_tags_are_parsed_and_three_are_dropped() {
    let bytecode = denying_everything();
    for frame in frames() {
        assert_eq!(bytecode.reason(&frame.bytes()), Reason::Denied);
        assert_eq!(bytecode.reason(&frame.clone().tag(1).bytes()), Reason::Denied);
        assert_eq!(bytecode.reason(&frame.clone().tag(1).tag(2).bytes()), Reason::Denied);
        assert_eq!(bytecode.reason(&frame.tag(1).tag(2).tag(3).bytes()), Reason::TooManyTags);
    }
    // Some switches use two 802.1Q tags.
    let mut twice = Frame::udp([192, 0, 2, 1], 9).tag(1).tag(2).bytes();
    twice[12..14].copy_from_slice(&[0x81, 0x00]);
    assert_eq!(bytecode.reason(&twice), Reason::Denied);
}

#[test]
fn frames_other_than_ip_pass() {
    let bytecode = denying_everything();
    for ether_type in [0x8035u16, 0x88cc, 0x0000, 0xffff] {
        let mut frame = Frame::udp([192, 0, 2, 1], 9).bytes();
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        assert_eq!(bytecode.reason(&frame), Reason::NotIp, "{ether_type:#06x}");
    }
}

/// Returns an IPv6 frame with this ICMPv6 type and hop limit.
fn icmpv6(kind: u8, hop_limit: u8) -> Vec<u8> {
    let mut frame = Frame::udp([0xfe80, 0, 0, 0, 0, 0, 0, 1], 9).bytes();
    frame[20] = 58;
    frame[21] = hop_limit;
    frame[54] = kind;
    frame
}

#[test]
fn only_link_discovery_passes_despite_deny_rules() {
    let bytecode = denying_everything();
    let mut arp = Frame::udp([192, 0, 2, 1], 9).bytes();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(bytecode.reason(&arp), Reason::LinkDiscovery);
    for kind in 0..=255 {
        let expected = if (133..=137).contains(&kind) { Reason::LinkDiscovery } else { Reason::Denied };
        assert_eq!(bytecode.reason(&icmpv6(kind, 255)), expected, "type {kind}");
        assert_eq!(bytecode.reason(&icmpv6(kind, 254)), Reason::Denied, "type {kind} from another link");
    }
    for (name, header) in EXTENSIONS {
        for kind in 0..=255 {
            let message = Wrap::new(58, [kind; 24]).behind(header);
            let extended = framed(&message.v6("fe80::1".parse().unwrap(), 255), &[]);
            assert_eq!(bytecode.reason(&extended), Reason::Denied, "type {kind} behind {name}");
        }
    }
    // The payload is only padding.
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
fn a_frame_cut_at_any_byte_is_truncated() {
    let bytecode = denying_everything();
    for frame in frames() {
        for frame in [frame.clone(), frame.clone().tag(1), frame.tag(1).tag(2)] {
            let bytes = frame.bytes();
            // The kernel refuses frames shorter than an Ethernet header.
            for length in 14..bytes.len() {
                assert_eq!(bytecode.reason(&bytes[..length]), Reason::Truncated, "{frame:?} cut to {length}");
            }
            assert_eq!(bytecode.reason(&bytes), Reason::Denied);
            assert_eq!(
                bytecode.reason(&[bytes, vec![0; 20]].concat()),
                Reason::Denied,
                "padding counts as part of the packet"
            );
        }
    }
}

fn with(frame: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[offset..offset + bytes.len()].copy_from_slice(bytes);
    frame
}

const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Returns frames whose IP version differs from the Ethernet type. They have no source.
fn of_other_versions() -> impl Iterator<Item = Vec<u8>> {
    let [v4, v6] = frames().map(|frame| frame.bytes());
    (0..16u8).flat_map(move |version| {
        let v4 = (version != 4).then(|| with(&v4, 14, &[version << 4 | 5]));
        let v6 = (version != 6).then(|| with(&v6, 14, &[version << 4]));
        v4.into_iter().chain(v6)
    })
}

/// Returns frames whose IPv4 header is too short, or longer than the packet. They have a source.
fn contradictory() -> impl Iterator<Item = Vec<u8>> {
    let [v4, _] = frames().map(|frame| frame.bytes());
    let lengths = (0..5).chain(12..16).map({
        let v4 = v4.clone();
        move |words| with(&v4, 14, &[0x40 | words])
    });
    lengths.chain((0..20u16).map(move |total| with(&v4, 16, &total.to_be_bytes())))
}

/// Returns frames that end before the length in their header. They have a source.
fn too_short() -> impl Iterator<Item = Vec<u8>> {
    let [v4, v6] = frames().map(|frame| frame.bytes());
    let v4 = [47u16, 48, u16::MAX].map(|total| with(&v4, 16, &total.to_be_bytes()));
    let v6 = [9u16, 10, u16::MAX].map(|payload| with(&v6, 18, &payload.to_be_bytes()));
    v4.into_iter().chain(v6)
}

/// Returns IPv6 frames of the right length that end within an extension header.
fn with_half_an_extension() -> impl Iterator<Item = Vec<u8>> {
    EXTENSIONS.into_iter().flat_map(|(_, kind)| {
        // Half of the header is present, or all but its last byte.
        let lengths = if kind == 44 { 0..8 } else { 0..12 };
        lengths.map(move |length| {
            framed(&Wrap::new(kind, &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..length]).v6(V6, 64), &[])
        })
    })
}

/// Returns frames of the right length that end before the ports.
fn without_ports() -> impl Iterator<Item = Vec<u8>> {
    [(6, 20), (17, 8), (132, 12)].into_iter().flat_map(|(protocol, shortest)| {
        (0..shortest).flat_map(move |length| {
            let payload = Wrap::new(protocol, vec![0; length]);
            [payload.v4([192, 0, 2, 1].into(), |_| {}), payload.v6(V6, 64), payload.behind(0).v6(V6, 64)]
                .map(|packet| framed(&packet, &[]))
        })
    })
}

#[test]
fn contradictory_headers_are_malformed() {
    let bytecode = denying_everything();
    for frame in of_other_versions().chain(contradictory()) {
        assert_eq!(bytecode.reason(&frame), Reason::Malformed, "{frame:02x?}");
    }
}

#[test]
fn packets_shorter_than_their_headers_say_are_truncated() {
    let bytecode = denying_everything();
    for frame in too_short().chain(with_half_an_extension()) {
        assert_eq!(bytecode.reason(&frame), Reason::Truncated, "{frame:02x?}");
    }
    for frame in without_ports() {
        assert_eq!(
            bytecode.reason(&frame),
            Reason::Denied,
            "without service rules, ports are not parsed: {frame:02x?}"
        );
    }
    let bytecode = denying_with(Settings { services: true, ..crate::settings() });
    for frame in too_short().chain(with_half_an_extension()).chain(without_ports()) {
        assert_eq!(bytecode.reason(&frame), Reason::Truncated, "{frame:02x?}");
    }
}

#[test]
fn with_pass_malformed_packets_with_a_source_still_follow_their_rule() {
    for services in [false, true] {
        let settings = Settings { pass_malformed: true, services, ..crate::settings() };
        for (bytecode, verdict) in
            [(denying_with(settings), Reason::Denied), (Bytecode::with(settings), Reason::WithinLimit)]
        {
            for frame in of_other_versions() {
                assert_eq!(bytecode.reason(&frame), Reason::Unreadable, "{frame:02x?}");
            }
            for frame in contradictory().chain(too_short()) {
                assert_eq!(bytecode.reason(&frame), verdict, "{frame:02x?}");
            }
            // With service rules, a cut packet could hide its service.
            let hidden = if services { Reason::Truncated } else { verdict };
            for frame in with_half_an_extension().chain(without_ports()) {
                assert_eq!(bytecode.reason(&frame), hidden, "{frame:02x?}");
            }
            for (frame, header) in frames().into_iter().zip([20, 40]) {
                for (tags, frame) in [frame.clone(), frame.clone().tag(1), frame.tag(1).tag(2)].iter().enumerate() {
                    let bytes = frame.bytes();
                    for length in 14..=bytes.len() {
                        let has_source = length >= 14 + 4 * tags + header;
                        let expected = if has_source { verdict } else { Reason::Unreadable };
                        assert_eq!(bytecode.reason(&bytes[..length]), expected, "{frame:?} cut to {length}");
                    }
                }
            }
        }
    }
}

#[test]
fn with_pass_malformed_too_many_tags_or_headers_are_still_dropped() {
    for services in [false, true] {
        let settings = Settings { pass_malformed: true, services, ..crate::settings() };
        for bytecode in [denying_with(settings), Bytecode::with(settings)] {
            for frame in frames() {
                let frame = frame.tag(1).tag(2).tag(3).bytes();
                assert_eq!(bytecode.reason(&frame), Reason::TooManyTags);
                assert_eq!(bytecode.reason(&frame[..26]), Reason::TooManyTags, "nothing after them is parsed");
            }
            for (name, kind) in EXTENSIONS {
                let nine = (0..9).fold(Wrap::udp(9), |wrap, _| wrap.behind(kind));
                assert_eq!(bytecode.reason(&framed(&nine.v6(V6, 64), &[])), Reason::TooManyHeaders, "{name}");
            }
        }
    }
}
