//! Expected replies to packets over a limit, computed with etherparse.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{
    EtherType, Ethernet2HeaderSlice, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber, Ipv4Header,
    Ipv4HeaderSlice, Ipv6FlowLabel, Ipv6Header, Ipv6HeaderSlice, SingleVlanHeaderSlice, TcpHeader, TcpSlice,
    icmpv4::DestUnreachableHeader, icmpv6::DestUnreachableCode,
};

/// Payload bytes that ICMP errors quote.
const QUOTED: usize = 8;

/// Returns the expected reply to a frame, or none if it must not get one.
#[must_use]
pub fn expected(frame: &[u8]) -> Option<Vec<u8>> {
    let (link, ether_type) = link(frame)?;
    let packet = &frame[link.len()..];
    let reply = match ether_type {
        EtherType::IPV4 => ipv4(packet)?,
        EtherType::IPV6 => ipv6(packet)?,
        _ => return None,
    };
    let mut reply = [link, reply].concat();
    reply.resize(reply.len().max(frame.len().min(60)), 0);
    Some(reply)
}

/// Returns the Ethernet header and tags of the reply, and the type of the next header.
fn link(frame: &[u8]) -> Option<(Vec<u8>, EtherType)> {
    let mut ethernet = Ethernet2HeaderSlice::from_slice(frame).ok()?.to_header();
    let is_group = |address: [u8; 6]| address[0] % 2 == 1;
    if is_group(ethernet.source) || is_group(ethernet.destination) || ethernet.source == [0; 6] {
        return None;
    }
    (ethernet.source, ethernet.destination) = (ethernet.destination, ethernet.source);
    let (mut header, mut ether_type) = (ethernet.to_bytes().to_vec(), ethernet.ether_type);
    for _ in 0..2 {
        if [EtherType::VLAN_TAGGED_FRAME, EtherType::PROVIDER_BRIDGING].contains(&ether_type) {
            let tag = SingleVlanHeaderSlice::from_slice(&frame[header.len()..]).ok()?;
            header.extend(tag.slice());
            ether_type = tag.ether_type();
        }
    }
    Some((header, ether_type))
}

fn ipv4(packet: &[u8]) -> Option<Vec<u8>> {
    let header = Ipv4HeaderSlice::from_slice(packet).ok()?.to_header();
    let payload = packet.get(header.header_len()..usize::from(header.total_len))?;
    let is_host = |address: [u8; 4]| {
        let address = Ipv4Addr::from(address);
        !address.is_multicast() && !address.is_loopback() && !matches!(address.octets()[0], 0 | 240..)
    };
    if !header.options.is_empty()
        || header.fragment_offset.value() != 0
        || !is_host(header.source)
        || !is_host(header.destination)
    {
        return None;
    }
    let (from, to) = (header.destination, header.source);
    let (protocol, reply) = if header.protocol == IpNumber::TCP {
        let mut reset = reset(payload)?;
        reset.checksum = reset.calc_checksum_ipv4_raw(from, to, &[]).ok()?;
        (IpNumber::TCP, reset.to_bytes().to_vec())
    } else {
        let is_question = payload.first().is_some_and(|kind| [8, 13].contains(kind));
        if payload.len() < QUOTED || header.protocol == IpNumber::ICMP && !is_question {
            return None;
        }
        let quote = &packet[..Ipv4Header::MIN_LEN + QUOTED];
        let kind = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FilterProhibited);
        let error = Icmpv4Header::with_checksum(kind, quote);
        (IpNumber::ICMP, [&error.to_bytes()[..], quote].concat())
    };
    let mut header = Ipv4Header::new(reply.len() as u16, 64, protocol, from, to).ok()?;
    (header.identification, header.dont_fragment) = (0, true);
    header.header_checksum = header.calc_header_checksum();
    Some([&header.to_bytes()[..], &reply].concat())
}

fn ipv6(packet: &[u8]) -> Option<Vec<u8>> {
    let header = Ipv6HeaderSlice::from_slice(packet).ok()?.to_header();
    let payload = packet[Ipv6Header::LEN..].get(..usize::from(header.payload_length))?;
    let is_host = |address: [u8; 16]| {
        let address = Ipv6Addr::from(address);
        !address.is_multicast() && !address.is_loopback() && !address.is_unspecified()
    };
    let is_last = !header.next_header.is_ipv6_ext_header_value() && header.next_header != IpNumber::IPV6_NO_NEXT_HEADER;
    if !is_last || !is_host(header.source) || !is_host(header.destination) {
        return None;
    }
    let (from, to) = (header.destination, header.source);
    let (protocol, reply) = if header.next_header == IpNumber::TCP {
        let mut reset = reset(payload)?;
        reset.checksum = reset.calc_checksum_ipv6_raw(from, to, &[]).ok()?;
        (IpNumber::TCP, reset.to_bytes().to_vec())
    } else {
        let is_refused = payload.first().is_none_or(|kind| matches!(kind, 0..=127 | 133..=137));
        if payload.len() < QUOTED || header.next_header == IpNumber::IPV6_ICMP && is_refused {
            return None;
        }
        let quote = &packet[..Ipv6Header::LEN + QUOTED];
        let kind = Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Prohibited);
        let error = Icmpv6Header::with_checksum(kind, from, to, quote).ok()?;
        (IpNumber::IPV6_ICMP, [&error.to_bytes()[..], quote].concat())
    };
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: Ipv6FlowLabel::ZERO,
        payload_length: reply.len() as u16,
        next_header: protocol,
        hop_limit: 64,
        source: from,
        destination: to,
    };
    Some([&header.to_bytes()[..], &reply].concat())
}

/// Returns the segment that a closed port sends to a first SYN (RFC 9293, section 3.10.7.1), without its checksum. Other
/// segments can belong to a connection, which must not end.
fn reset(payload: &[u8]) -> Option<TcpHeader> {
    let segment = TcpSlice::from_slice(payload).ok()?;
    if !segment.syn() || segment.ack() || segment.fin() || segment.rst() {
        return None;
    }
    let mut reset = TcpHeader::new(segment.destination_port(), segment.source_port(), 0, 0);
    (reset.rst, reset.ack) = (true, true);
    let counted = segment.payload().len() as u32 + 1;
    reset.acknowledgment_number = segment.sequence_number().wrapping_add(counted);
    Some(reset)
}
