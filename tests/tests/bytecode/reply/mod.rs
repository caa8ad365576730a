//! Replies to packets over a limit.

mod budget;
mod generated;
mod never;

use std::net::{IpAddr, Ipv6Addr};

use etherparse::{
    Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, icmpv4::DestUnreachableHeader,
    icmpv6::DestUnreachableCode,
};
use ratelimit_common::limits::{
    limit::{DAY, Limit, Rate, SECOND},
    policy::{Policy, REJECT},
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{
    Bytecode, EXTENSIONS, Frame, VICTIM_IPV4, VICTIM_IPV6, Verdict, Wrap, framed, kernel_at_least, reply::expected,
};

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 0xc];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 0x5];
const SOURCE_V4: [u8; 4] = [192, 0, 2, 7];
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);

/// Loads a program that replies, with a limit of one packet per day.
fn load(settings: Settings) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { reject: true, actions: true, ..settings });
    bytecode.set_time(SECOND);
    let rate = Rate { amount: 1, period: DAY };
    let limit = Limit { packets: Some(rate), burst: Some(1), ..Limit::default() };
    bytecode.set("default", Policy { over_limit: REJECT, ..limit.policy().unwrap() });
    bytecode
}

/// Returns settings whose reply budget covers every packet.
fn plenty() -> Settings {
    Settings { replies: 100_000_000, ..crate::settings() }
}

/// Sends a packet twice and returns the verdict and output of the second.
fn exchange(bytecode: &Bytecode, frame: &[u8]) -> (Verdict, Vec<u8>) {
    bytecode.send(frame);
    bytecode.exchange(frame)
}

/// Sends a packet twice and returns the reply to the second.
#[track_caller]
fn answer(bytecode: &Bytecode, frame: &[u8]) -> Vec<u8> {
    let (verdict, answer) = exchange(bytecode, frame);
    assert_eq!(verdict, Verdict::Reply);
    assert_eq!(Some(&answer), expected(frame).as_ref());
    answer
}

/// Sets the link addresses of client and server.
fn between(mut frame: Vec<u8>) -> Vec<u8> {
    frame[..12].copy_from_slice(&[SERVER, CLIENT].concat());
    frame
}

/// Parses a reply and returns it with its transport header.
#[track_caller]
fn parsed(answer: &[u8]) -> (SlicedPacket<'_>, TransportSlice<'_>) {
    let packet = SlicedPacket::from_ethernet(answer).unwrap();
    assert_eq!(answer[..12], [CLIENT, SERVER].concat());
    let transport = packet.transport.clone().unwrap();
    (packet, transport)
}

#[test]
fn a_tcp_syn_over_ipv4_gets_a_reset() {
    let bytecode = load(plenty());
    let frame = PacketBuilder::ethernet2(CLIENT, SERVER).ipv4(SOURCE_V4, VICTIM_IPV4.octets(), 3);
    let mut bytes = Vec::new();
    frame.tcp(50_000, 443, u32::MAX, 1_000).syn().write(&mut bytes, &[]).unwrap();
    bytes.resize(60, 0xaa);
    let answer = answer(&bytecode, &bytes);
    // The reply has the length of the frame, and zeroes after its end.
    assert_eq!((answer.len(), &answer[54..]), (60, &[0; 6][..]));
    let (packet, TransportSlice::Tcp(segment)) = parsed(&answer) else { panic!("no TCP") };
    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4") };
    let header = ip.header();
    assert_eq!((header.source_addr(), header.destination_addr()), (VICTIM_IPV4, SOURCE_V4.into()));
    assert_eq!((header.ttl(), header.total_len(), header.identification()), (64, 40, 0));
    assert!(header.dont_fragment() && header.dcp().value() == 0);
    assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
    let checksum = segment.calc_checksum_ipv4(header.source(), header.destination()).unwrap();
    assert_eq!(segment.checksum(), checksum);
    assert_eq!((segment.source_port(), segment.destination_port()), (443, 50_000));
    // A SYN counts as one byte, which wraps the sequence number.
    assert_eq!((segment.sequence_number(), segment.acknowledgment_number()), (0, 0));
    assert!(segment.rst() && segment.ack() && !segment.syn());
    assert_eq!((segment.window_size(), segment.data_offset(), segment.urgent_pointer()), (0, 5, 0));
}

#[test]
fn a_tcp_syn_with_data_over_ipv6_gets_a_reset_that_acknowledges_both() {
    let bytecode = load(plenty());
    let frame = PacketBuilder::ethernet2(CLIENT, SERVER).ipv6(SOURCE_V6.octets(), VICTIM_IPV6.octets(), 3);
    let mut bytes = Vec::new();
    frame.tcp(50_000, 443, 77, 1_000).syn().psh().write(&mut bytes, &[1; 1_000]).unwrap();
    let answer = answer(&bytecode, &bytes);
    assert_eq!(answer.len(), 14 + 40 + 20);
    let (packet, TransportSlice::Tcp(segment)) = parsed(&answer) else { panic!("no TCP") };
    let Some(NetSlice::Ipv6(ip)) = packet.net else { panic!("no IPv6") };
    let header = ip.header();
    assert_eq!((header.source_addr(), header.destination_addr()), (VICTIM_IPV6, SOURCE_V6));
    assert_eq!((header.hop_limit(), header.payload_length(), header.traffic_class()), (64, 20, 0));
    let checksum = segment.calc_checksum_ipv6(header.source(), header.destination()).unwrap();
    assert_eq!(segment.checksum(), checksum);
    assert_eq!((segment.sequence_number(), segment.acknowledgment_number()), (0, 77 + 1 + 1_000));
    assert!(segment.rst() && segment.ack() && !segment.psh());
}

#[test]
fn packets_other_than_tcp_get_an_icmp_error_with_the_start_of_the_packet() {
    let bytecode = load(plenty());
    for length in [60, 300, 1_514] {
        let frame = between(Frame::udp(SOURCE_V4, 53).length(length).bytes());
        let reply = answer(&bytecode, &frame);
        assert_eq!(reply.len(), 14 + 20 + 8 + 28);
        let (packet, TransportSlice::Icmpv4(error)) = parsed(&reply) else { panic!("no ICMP") };
        let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4") };
        assert_eq!((ip.header().source_addr(), ip.header().destination_addr()), (VICTIM_IPV4, SOURCE_V4.into()));
        let prohibited = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FilterProhibited);
        assert_eq!(error.icmp_type(), prohibited);
        assert_eq!(error.checksum(), prohibited.calc_checksum(error.payload()));
        assert_eq!(error.payload(), &frame[14..14 + 28]);

        let frame = between(Frame::udp(SOURCE_V6, 53).length(length.max(62)).bytes());
        let reply = answer(&bytecode, &frame);
        assert_eq!(reply.len(), 14 + 40 + 8 + 48);
        let (packet, TransportSlice::Icmpv6(error)) = parsed(&reply) else { panic!("no ICMPv6") };
        let Some(NetSlice::Ipv6(ip)) = packet.net else { panic!("no IPv6") };
        let header = ip.header();
        assert_eq!((header.source_addr(), header.destination_addr()), (VICTIM_IPV6, SOURCE_V6));
        assert_eq!(error.icmp_type(), Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Prohibited));
        assert!(error.is_checksum_valid(header.source(), header.destination()));
        assert_eq!(error.payload(), &frame[14..14 + 48]);
    }
}

#[test]
fn replies_keep_vlan_tags() {
    let bytecode = load(plenty());
    for source in [IpAddr::from(SOURCE_V4), SOURCE_V6.into()] {
        for frame in [Frame::syn(source, 443), Frame::udp(source, 53), Frame::echo(source)] {
            for frame in [frame.clone().tag(7), frame.tag(7).tag(0xe00b)] {
                let frame = between(frame.bytes());
                let answer = answer(&bytecode, &frame);
                let tags = if frame[12..14] == [0x88, 0xa8] { 12..22 } else { 12..18 };
                assert_eq!(answer[tags.clone()], frame[tags]);
                parsed(&answer);
            }
        }
    }
}

/// SCTP, GRE, and an unassigned protocol. ESP is a payload over IPv4, and an extension header only over IPv6.
#[test]
fn every_transport_protocol_gets_a_reply() {
    let bytecode = load(plenty());
    for protocol in [132, 47, 200] {
        answer(&bytecode, &framed(&Wrap::new(protocol, [1; 30]).v4(SOURCE_V4.into(), |_| {}), &[]));
        answer(&bytecode, &framed(&Wrap::new(protocol, [1; 30]).v6(SOURCE_V6, 64), &[]));
    }
    answer(&bytecode, &framed(&Wrap::new(50, [1; 30]).v4(SOURCE_V4.into(), |_| {}), &[]));
    for (name, extension) in EXTENSIONS {
        let frame = framed(&Wrap::new(17, [1; 30]).behind(extension).v6(SOURCE_V6, 64), &[]);
        assert_eq!(exchange(&bytecode, &frame), (Verdict::Drop, frame), "{name}");
    }
}

#[test]
fn without_reject_packets_are_dropped_without_a_reply() {
    let mut bytecode = Bytecode::with(Settings { replies: 100, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", Policy { over_limit: REJECT, ..ratelimit_tests::per_second(1, 1) });
    for _ in 0..10 {
        let frame = Frame::syn(SOURCE_V4, 443).bytes();
        assert_eq!(exchange(&bytecode, &frame), (Verdict::Drop, frame));
    }
}

/// The headers are in the first buffer, but the program cannot cut off the rest.
#[test]
fn frames_of_several_buffers_are_dropped_without_a_reply() {
    if !kernel_at_least(5, 18) {
        println!("skipped: frames of several buffers need Linux 5.18");
        return;
    }
    let bytecode = load(plenty());
    for frame in [Frame::syn(SOURCE_V4, 443), Frame::udp(SOURCE_V6, 53)] {
        let frame = frame.length(9_014).bytes();
        assert_eq!(exchange(&bytecode, &frame), (Verdict::Drop, frame));
    }
}

/// The program for older kernels replies as well.
#[test]
fn the_program_for_single_buffer_frames_replies() {
    let bytecode = load(Settings { frags: false, ..plenty() });
    for frame in [Frame::syn(SOURCE_V4, 443), Frame::udp(SOURCE_V6, 53).length(1_514)] {
        answer(&bytecode, &frame.bytes());
    }
}
