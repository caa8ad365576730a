//! Packets that never get a reply.

use std::net::IpAddr;

use ratelimit_tests::{Frame, Verdict, Wrap, framed, reply::expected};

use super::{SOURCE_V4, SOURCE_V6, answer, exchange, load, plenty};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Returns a frame with some bytes replaced.
fn changed(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    framed(&Wrap::new(protocol, payload).v4(SOURCE_V4.into(), |_| {}), &[])
}

fn v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    framed(&Wrap::new(protocol, payload).v6(SOURCE_V6, 64), &[])
}

#[test]
fn packets_that_rfcs_exclude_get_no_reply() {
    let bytecode = load(plenty());
    let udp_v4 = || Frame::udp(SOURCE_V4, 53).bytes();
    let udp_v6 = || Frame::udp(SOURCE_V6, 53).bytes();
    let syn_v4 = || Frame::syn(SOURCE_V4, 443).bytes();
    let syn_v6 = || Frame::syn(SOURCE_V6, 443).bytes();
    for frame in [udp_v4(), udp_v6(), syn_v4(), syn_v6()] {
        answer(&bytecode, &frame);
    }
    let mut frames = Vec::new();
    for frame in [udp_v4(), udp_v6(), syn_v4(), syn_v6()] {
        frames.extend([
            ("to everyone on the link", changed(frame.clone(), 0, &[0xff; 6])),
            ("to a group on the link", changed(frame.clone(), 0, &[1, 0, 0x5e, 0, 0, 1])),
            ("from a group on the link", changed(frame.clone(), 6, &[3])),
            ("from nowhere on the link", changed(frame, 6, &[0; 6])),
        ]);
    }
    for frame in [udp_v4(), syn_v4()] {
        for destination in [[224, 0, 0, 1], [239, 1, 2, 3], [255; 4], [0; 4], [127, 0, 0, 1]] {
            frames.push(("to no host", changed(frame.clone(), 30, &destination)));
        }
        for source in [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4]] {
            frames.push(("from no host", changed(frame.clone(), 26, &source)));
        }
        frames.extend([
            ("the last fragment", changed(frame.clone(), 20, &[0, 9])),
            ("a fragment in between", changed(frame.clone(), 20, &[0x3f, 0xff])),
            ("longer than the frame", changed(frame.clone(), 16, &[0, 200])),
            ("hardly a header", changed(frame.clone(), 16, &[0, 20])),
            ("less than a header", changed(frame.clone(), 16, &[0, 27])),
        ]);
    }
    for frame in [udp_v6(), syn_v6()] {
        let mut one = [0; 16];
        one[15] = 1;
        let mut group = [0; 16];
        (group[0], group[15]) = (0xff, 1);
        for address in [[0; 16], one, group] {
            frames.push(("to no host", changed(frame.clone(), 38, &address)));
            frames.push(("from no host", changed(frame.clone(), 22, &address)));
        }
        frames.push(("longer than the frame", changed(frame.clone(), 18, &[0, 200])));
        frames.push(("less than a header", changed(frame, 18, &[0, 7])));
    }
    for kind in (0..=255).filter(|kind| ![8, 13].contains(kind)) {
        frames.push(("ICMP that asks nothing", v4(ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0, 0, 0])));
    }
    for kind in (0..128).chain(133..=137) {
        frames.push(("ICMPv6 that must not be answered", v6(ICMPV6, &[kind, 0, 0, 0, 0, 0, 0, 0, 0, 0])));
    }
    for protocol in [0, 43, 44, 50, 51, 59, 60, 135, 139, 140, 253, 254] {
        frames.push(("behind an extension header", v6(protocol, &[17, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0])));
    }
    let with_options = Wrap::udp(53).v4(SOURCE_V4.into(), |header| header.options = [1; 4].into());
    frames.push(("IPv4 options", framed(&with_options, &[])));
    for (frame, begin) in [(syn_v4(), 34), (syn_v6(), 54)] {
        for flags in (0..=255).filter(|flags| flags & (FIN | SYN | RST | ACK) != SYN) {
            frames.push(("no first SYN", changed(frame.clone(), begin + 13, &[flags])));
        }
        frames.push(("a header that is too short", changed(frame.clone(), begin + 12, &[0x40])));
        frames.push(("a header beyond the packet", changed(frame, begin + 12, &[0xf0])));
    }
    frames.extend([
        ("hardly any ports", v4(17, &[0; 7])),
        ("hardly any ports", v6(17, &[0; 7])),
        ("half a TCP header", v4(6, &[0x50; 19])),
        ("half a TCP header", v6(6, &[0x50; 19])),
        ("three tags", Frame::udp(SOURCE_V4, 53).tag(1).tag(2).tag(3).bytes()),
        ("no IP", changed(udp_v4(), 12, &[0x88, 0xcc])),
        ("IPv4 of another version", changed(udp_v4(), 14, &[0x55])),
        ("IPv6 of another version", changed(udp_v6(), 14, &[0x50])),
    ]);
    for (why, frame) in frames {
        assert_eq!(expected(&frame), None, "{why}");
        let (verdict, out) = exchange(&bytecode, &frame);
        assert_ne!(verdict, Verdict::Reply, "{why}: {frame:?}");
        assert_eq!(out, frame, "{why}");
    }
    // Similar packets that do get a reply.
    for frame in [
        changed(udp_v4(), 20, &[0x20, 0]),
        changed(udp_v4(), 30, &[223, 255, 255, 255]),
        v4(ICMP, &[8, 0, 0, 0, 0, 0, 0, 0]),
        v4(ICMP, &[13, 0, 0, 0, 0, 0, 0, 0]),
        v6(ICMPV6, &[128, 0, 0, 0, 0, 0, 0, 0]),
        v6(ICMPV6, &[132, 0, 0, 0, 0, 0, 0, 0]),
        v6(ICMPV6, &[138, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        answer(&bytecode, &frame);
    }
}

/// Two limiters must not reply to each other.
#[test]
fn a_reply_gets_no_reply() {
    let bytecode = load(plenty());
    for source in [IpAddr::from(SOURCE_V4), SOURCE_V6.into()] {
        for frame in [Frame::syn(source, 443), Frame::udp(source, 53), Frame::echo(source)] {
            let answer = answer(&bytecode, &frame.tag(5).bytes());
            assert_eq!(exchange(&bytecode, &answer), (Verdict::Drop, answer));
        }
    }
}
