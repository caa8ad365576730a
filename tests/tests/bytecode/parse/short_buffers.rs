//! Frames whose first buffer ends anywhere, even before their headers.

use std::net::{IpAddr, Ipv6Addr};

use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::{DAY, Limit, Rate, SECOND},
        policy::{Policy, REJECT},
    },
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, sys::link_type::FirstHeader};
use ratelimit_tests::{
    Bytecode, EXTENSIONS, Frame, Verdict, Wrap, encapsulations, framed, generate::Generator, kernel_at_least,
};

const V4: [u8; 4] = [192, 0, 2, 1];
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const PORT: u16 = 53;

/// Bytes of a first buffer from which on the program always measures its frame.
const LONG: usize = 256;

/// Returns whether tests can choose the length of the first buffer, by [`kernel_at_least`].
fn can_split() -> bool {
    let can = kernel_at_least(6, 18);
    if !can {
        println!("skipped: a test chooses the length of the first buffer from Linux 6.18 on");
    }
    can
}

/// Returns the reason of a frame whose first buffer ends after `first` bytes. All bytes of the frame must be counted.
#[track_caller]
fn reason(bytecode: &Bytecode, frame: &[u8], first: usize) -> Reason {
    let runner = bytecode.runner(FirstHeader::Ethernet);
    bytecode.reason_of(frame, || runner.split(frame, first))
}

/// Returns frames from both families with no, one and two tags.
fn frames(port: u16) -> Vec<Vec<u8>> {
    let tagged = |frame: Frame| [frame.clone(), frame.clone().tag(1), frame.tag(1).tag(2)];
    let [v4, v6] = [IpAddr::from(V4), V6.into()].map(|source| tagged(Frame::udp(source, port).length(400)));
    v4.into_iter().chain(v6).map(|frame| frame.bytes()).collect()
}

#[test]
fn the_rule_of_the_source_applies_wherever_the_first_buffer_ends() {
    if !can_split() {
        return;
    }
    for (policy, expected) in [(Policy::ALLOWED, Reason::Allowed), (Policy::DENIED, Reason::Denied)] {
        let mut bytecode = Bytecode::with(crate::settings());
        bytecode.set("192.0.2.0/24", policy);
        bytecode.set("2001:db8::/32", policy);
        for frame in frames(PORT) {
            for first in 0..=frame.len() {
                assert_eq!(reason(&bytecode, &frame, first), expected, "{first} of {frame:02x?}");
            }
        }
    }
}

#[test]
fn ports_are_found_behind_options_and_extension_headers_in_other_buffers() {
    if !can_split() {
        return;
    }
    let mut bytecode = Bytecode::with(Settings { services: true, ..crate::settings() });
    bytecode.set("default udp/53", Policy::DENIED);
    let chain = |kinds: &[u8]| kinds.iter().fold(Wrap::udp(PORT), |wrap, kind| wrap.behind(*kind)).v6(V6, 64);
    let long = Wrap::udp(PORT).behind_longer(60, 200).behind_longer(0, 200);
    let options = Wrap::udp(PORT).v4(V4.into(), |header| header.options = [1; 40].into());
    let eight = [EXTENSIONS.map(|(_, kind)| kind).to_vec(), vec![60, 43, 0]].concat();
    for packet in [options, chain(&[]), chain(&eight), chain(&[44]), long.v6(V6, 64)] {
        let frame = framed(&packet, &[]);
        for first in (0..LONG).chain([LONG, 2_000]).filter(|first| *first <= frame.len()) {
            assert_eq!(reason(&bytecode, &frame, first), Reason::Denied, "{first} of {frame:02x?}");
        }
    }
    let nine = [&eight[..], &[60]].concat();
    let frame = framed(&chain(&nine), &[]);
    for first in 0..=frame.len() {
        assert_eq!(reason(&bytecode, &frame, first), Reason::TooManyHeaders, "{first}");
    }
}

#[test]
fn link_discovery_and_other_frames_are_told_apart_in_any_buffer() {
    if !can_split() {
        return;
    }
    let mut bytecode = Bytecode::with(crate::settings());
    bytecode.set("default", Policy::DENIED);
    let mut arp = Frame::udp(V4, PORT).bytes();
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut solicitation = Wrap::new(58, [135; 24]).v6("fe80::1".parse().unwrap(), 255);
    solicitation[7] = 255;
    for frame in [arp, framed(&solicitation, &[])] {
        for first in 0..=frame.len() {
            assert_eq!(reason(&bytecode, &frame, first), Reason::LinkDiscovery, "{first} of {frame:02x?}");
        }
    }
}

/// The reason of a frame does not depend on its buffers.
#[test]
fn generated_frames_get_the_same_reason_in_one_buffer_and_in_two() {
    if !can_split() {
        return;
    }
    for (services, pass_malformed) in [(false, false), (true, false), (true, true)] {
        let settings = Settings { services, pass_malformed, bytes: true, ..crate::settings() };
        let mut bytecode = Bytecode::with(settings);
        for (service, policy) in [("udp", Policy::DENIED), ("tcp/443", Policy::ALLOWED), ("gre", Policy::DENIED)] {
            if services {
                bytecode.set(&format!("default {service}"), policy);
            }
        }
        let (mut generator, mut clock, mut seen) = (Generator::new(7), bytecode.clock(), [0; 2]);
        for number in 0..250 {
            let (frame, _) = generator.make();
            if frame.len() < 14 {
                continue;
            }
            clock.advance(SECOND / 100);
            let whole = bytecode.reason(frame);
            for first in [0, 13, 14, 15, 20, 34, 38, 54, 58, 60, 62, 70, 255, 256, number % frame.len()] {
                if first <= frame.len() {
                    assert_eq!(reason(&bytecode, frame, first), whole, "{first} of {frame:02x?}");
                }
            }
            seen[usize::from(whole.passes())] += 1;
        }
        assert!(seen.iter().all(|seen| *seen > 50), "{seen:?}");
    }
}

#[test]
fn every_encapsulation_of_a_denied_source_is_denied_in_two_buffers() {
    if !can_split() {
        return;
    }
    let mut bytecode = Bytecode::with(Settings { services: true, ..crate::settings() });
    for source in [IpAddr::from(V4), V6.into()] {
        bytecode.set(&source.to_string(), Policy::DENIED);
        for encapsulated in encapsulations(source, PORT) {
            let expected = encapsulated.dropped.unwrap_or(Reason::Denied);
            for first in [0, 14, encapsulated.ip_at, encapsulated.ip_at + 20] {
                let first = first.min(encapsulated.frame.len());
                assert_eq!(reason(&bytecode, &encapsulated.frame, first), expected, "{}", encapsulated.name);
            }
        }
    }
}

#[test]
fn a_frame_that_ends_too_soon_is_truncated_in_any_buffer() {
    if !can_split() {
        return;
    }
    let mut bytecode = Bytecode::with(crate::settings());
    bytecode.set("default", Policy::DENIED);
    for frame in frames(PORT) {
        for length in [14, 20, 40, frame.len() - 1] {
            for first in 0..=length.min(80) {
                assert_eq!(reason(&bytecode, &frame[..length], first), Reason::Truncated, "{first} of {length}");
            }
        }
    }
}

/// An attacker could otherwise send any amount of bytes behind a short packet.
#[test]
fn a_limit_of_bytes_counts_bytes_behind_the_packet_in_another_buffer() {
    if !can_split() {
        return;
    }
    let mut bytecode = Bytecode::with(Settings { bytes: true, ..crate::settings() });
    bytecode.set_time(SECOND);
    let rate = Rate { amount: 1, period: SECOND };
    let limit = Limit { bytes: Some(rate), burst: Some(10), ..Limit::default() };
    bytecode.set("default", limit.policy().unwrap());
    let packet = Frame::udp(V4, PORT).bytes();
    let frame = [&packet[..], &[0; 1_440]].concat();
    let passed = (0..30).filter(|_| reason(&bytecode, &frame, packet.len()).passes()).count();
    // A burst of ten packets is one of 15,140 bytes.
    assert_eq!(passed, 10);
    let bucket = bytecode.bucket(Source::v4(V4)).unwrap();
    assert!(bucket.passed_bytes <= 10 * 1_500, "{bucket:?}");
}

#[test]
fn frames_of_several_short_buffers_get_no_reply() {
    if !can_split() {
        return;
    }
    let settings = Settings { reject: true, actions: true, replies: 100_000_000, ..crate::settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    let rate = Rate { amount: 1, period: DAY };
    let limit = Limit { packets: Some(rate), burst: Some(1), ..Limit::default() };
    bytecode.set("default", Policy { over_limit: REJECT, ..limit.policy().unwrap() });
    let frame = [Frame::syn(V4, 443).bytes(), vec![0; 100]].concat();
    bytecode.send(&frame);
    assert_eq!(bytecode.send(&frame), Verdict::Reply);
    for first in 0..frame.len() {
        assert_eq!(bytecode.runner(FirstHeader::Ethernet).split(&frame, first), Verdict::Drop, "{first}");
    }
}
