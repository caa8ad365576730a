//! Packets of interfaces without Ethernet headers.

use std::net::{IpAddr, Ipv6Addr};

use ratelimit_common::{
    limits::{
        limit::{DAY, Limit, Rate, SECOND},
        policy::{Policy, REJECT},
    },
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, sys::link_type::FirstHeader};
use ratelimit_tests::{Bytecode, Frame, Verdict, Wrap, encapsulations, kernel_at_least};

const V4: [u8; 4] = [192, 0, 2, 1];
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

fn settings() -> Settings {
    Settings { raw_ip: true, ..crate::settings() }
}

fn denying_everything(settings: Settings) -> Bytecode {
    let mut bytecode = Bytecode::with(settings);
    bytecode.set("default", Policy::DENIED);
    bytecode
}

#[track_caller]
fn reason(bytecode: &Bytecode, packet: &[u8]) -> Reason {
    bytecode.reason_of(packet, || bytecode.runner(FirstHeader::Ip).repeat(packet, 1))
}

#[test]
fn every_encapsulation_gets_the_reason_that_it_gets_behind_an_ethernet_header() {
    for services in [false, true] {
        for frags in [true, false] {
            let mut bytecode = Bytecode::with(Settings { services, frags, ..settings() });
            let mut compared = 0;
            for source in [IpAddr::from(V4), V6.into()] {
                bytecode.set(&source.to_string(), Policy::DENIED);
                // Tags are part of the Ethernet header.
                let untagged = encapsulations(source, 9).into_iter().filter(|row| row.ip_at == ETHERNET);
                for row in untagged {
                    let expected = row.dropped.unwrap_or(Reason::Denied);
                    assert_eq!(bytecode.reason(&row.frame), expected, "{}", row.name);
                    assert_eq!(reason(&bytecode, &row.frame[ETHERNET..]), expected, "{}", row.name);
                    compared += 1;
                }
            }
            assert!(compared > 100, "{compared}");
        }
    }
}

#[test]
fn sources_have_one_bucket_on_all_interfaces() {
    let mut bytecode = Bytecode::with(settings());
    bytecode.set_time(SECOND);
    let rate = Rate { amount: 1, period: DAY };
    bytecode.set("default", Limit { packets: Some(rate), burst: Some(9), ..Limit::default() }.policy().unwrap());
    for frame in [Frame::udp(V4, 9).bytes(), Frame::udp(V6, 9).bytes()] {
        let packet = &frame[ETHERNET..];
        let passed = (0..20).filter(|number| match number % 2 {
            0 => bytecode.reason(&frame).passes(),
            _ => reason(&bytecode, packet).passes(),
        });
        assert_eq!(passed.count(), 9);
    }
}

/// Such a packet could hide an IP packet, and nothing but its first byte tells what it is.
#[test]
fn packets_that_are_not_ip_are_malformed() {
    let bytecode = denying_everything(settings());
    let lenient = denying_everything(Settings { pass_malformed: true, ..settings() });
    let mut packet = Frame::udp(V4, 9).bytes()[ETHERNET..].to_vec();
    for version in (0..16).filter(|version| ![4, 6].contains(version)) {
        packet[0] = version << 4 | 5;
        assert_eq!(reason(&bytecode, &packet), Reason::Malformed, "{version}");
        assert_eq!(reason(&lenient, &packet), Reason::Unreadable, "{version}");
    }
    // A VLAN tag with each priority, before an IPv4 packet.
    let inner = Frame::udp(V4, 9).bytes()[ETHERNET..].to_vec();
    for priority in 0..16u8 {
        let tagged = [&[priority << 4, 0, 8, 0], &inner[..]].concat();
        let said = reason(&bytecode, &tagged);
        assert!([Reason::Malformed, Reason::Truncated].contains(&said), "{priority}: {said:?}");
    }
}

/// The kernel takes VLAN tags away also where only a GRE header, or a program, names them. A tag of priority 3 begins like
/// IPv6.
#[test]
fn no_tag_in_front_of_a_packet_is_read_as_ipv6() {
    const FURTHER: [&[[u8; 2]]; 5] =
        [&[], &[[0x81, 0]], &[[0x88, 0xa8]], &[[0x81, 0], [0x81, 0]], &[[0x88, 0xa8], [0x81, 0], [0x81, 0]]];
    let mut bytecode = Bytecode::with(settings());
    for source in [IpAddr::from(V4), V6.into()] {
        bytecode.set(&source.to_string(), Policy::DENIED);
        let kind = if source.is_ipv4() { [0x08, 0] } else { [0x86, 0xdd] };
        let inner = &Frame::udp(source, 9).bytes()[ETHERNET..];
        for further in FURTHER {
            for first in [[0x60, 0], [0x6f, 0xff]] {
                let tags: Vec<u8> = further.iter().flat_map(|kind| [&kind[..], &[0, 0]].concat()).collect();
                let mut packet = [&first[..], &tags, &kind, inner].concat();
                // As long as the IPv6 header says that it seems to be.
                let length = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
                packet.resize(packet.len().max(length), 0);
                assert_eq!(reason(&bytecode, &packet), Reason::Malformed, "{source} {further:x?} {first:x?}");
            }
        }
    }
}

/// Flow labels are random, and some are like the type of a packet behind a tag.
#[test]
fn ipv6_packets_are_read_whatever_their_flow_label() {
    let mut bytecode = Bytecode::with(settings());
    bytecode.set(&V6.to_string(), Policy::DENIED);
    let mut packet = Frame::udp(V6, 9).bytes()[ETHERNET..].to_vec();
    for label in [[0x08, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0xa8]] {
        packet[2..4].copy_from_slice(&label);
        assert_eq!(reason(&bytecode, &packet), Reason::Denied, "{label:x?}");
    }
}

#[test]
fn a_packet_cut_at_any_byte_is_truncated() {
    let bytecode = denying_everything(Settings { services: true, ..settings() });
    for frame in [Frame::udp(V4, 9).bytes(), Frame::udp(V6, 9).bytes()] {
        let packet = &frame[ETHERNET..];
        // The kernel runs no shorter ones.
        for length in ETHERNET..packet.len() {
            assert_eq!(reason(&bytecode, &packet[..length]), Reason::Truncated, "{length}");
        }
        assert_eq!(reason(&bytecode, packet), Reason::Denied);
    }
}

/// It could come from anywhere through a tunnel.
#[test]
fn neighbour_discovery_is_not_exempt() {
    let bytecode = denying_everything(settings());
    for kind in 133..=137 {
        let message = Wrap::new(58, [kind; 16]).v6("fe80::1".parse().unwrap(), 255);
        assert_eq!(reason(&bytecode, &message), Reason::Denied);
    }
}

/// The kernel would take the changed bytes for a changed Ethernet header.
#[test]
fn packets_over_a_limit_get_no_reply() {
    let mut bytecode = Bytecode::with(Settings { reject: true, actions: true, replies: 100_000_000, ..settings() });
    bytecode.set_time(SECOND);
    let rate = Rate { amount: 1, period: DAY };
    let limit = Limit { packets: Some(rate), burst: Some(1), ..Limit::default() };
    bytecode.set("default", Policy { over_limit: REJECT, ..limit.policy().unwrap() });
    let frame = Frame::syn(V4, 443).bytes();
    let packet = &frame[ETHERNET..];
    assert_eq!(bytecode.runner(FirstHeader::Ip).exchange(packet), (Verdict::Pass, packet.to_vec()));
    assert_eq!(bytecode.runner(FirstHeader::Ip).exchange(packet), (Verdict::Drop, packet.to_vec()));
    // The same source gets one where a frame has an Ethernet header.
    assert_eq!(bytecode.send(&frame), Verdict::Reply);
}

#[test]
fn packets_are_read_wherever_the_first_buffer_ends() {
    if !kernel_at_least(6, 18) {
        println!("skipped: a test chooses the length of the first buffer from Linux 6.18 on");
        return;
    }
    let bytecode = denying_everything(Settings { services: true, ..settings() });
    for frame in [Frame::syn(V4, 443).bytes(), Frame::syn(V6, 443).bytes()] {
        let packet = &frame[ETHERNET..];
        for first in 0..=packet.len() {
            let said = bytecode.reason_of(packet, || bytecode.runner(FirstHeader::Ip).split(packet, first));
            assert_eq!(said, Reason::Denied, "{first}");
        }
    }
}
