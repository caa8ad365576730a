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
    for ether_type in [0x0806u16, 0x88cc, 0x0000, 0xffff] {
        let mut frame = Frame::udp([192, 0, 2, 1], 9).bytes();
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        assert_eq!(bytecode.reason(&frame), Reason::NotIp, "{ether_type:#06x}");
    }
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
