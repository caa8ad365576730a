//! Every encapsulation in which a packet could hide its source.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::Ipv4Options;
use ratelimit_common::reason::Reason;
use ratelimit_sandbox::packets::wrap::{
    AUTHENTICATION, DESTINATION, EXTENSIONS, FRAGMENT, HOP_BY_HOP, ROUTING, Wrap, fragment_offset, framed,
};

const ICMPV6: u8 = 58;
const NO_NEXT: u8 = 59;

/// As many headers as the product parses, and four more.
const CHAIN: [u8; 12] = [
    HOP_BY_HOP,
    DESTINATION,
    ROUTING,
    FRAGMENT,
    AUTHENTICATION,
    DESTINATION,
    ROUTING,
    HOP_BY_HOP,
    DESTINATION,
    AUTHENTICATION,
    FRAGMENT,
    DESTINATION,
];

const TAGS: [(&str, &[u16], Option<Reason>); 7] = [
    ("802.1Q", &[0x8100], None),
    ("802.1ad", &[0x88a8], None),
    ("QinQ", &[0x88a8, 0x8100], None),
    ("802.1Q twice", &[0x8100, 0x8100], None),
    ("802.1ad twice", &[0x88a8, 0x88a8], None),
    ("three tags", &[0x88a8, 0x8100, 0x8100], Some(Reason::TooManyTags)),
    ("four tags", &[0x8100, 0x8100, 0x8100, 0x8100], Some(Reason::TooManyTags)),
];

/// Sources of packets inside tunnels. They have no rule.
const INNER: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 9, 9, 9), Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 9));

/// A frame with its name.
#[derive(Debug, Clone)]
pub struct Encapsulated {
    /// The encapsulation. Several frames can share a name.
    pub name: String,
    /// All bytes from the Ethernet header on.
    pub frame: Vec<u8>,
    /// Offset of the IP header.
    pub ip_at: usize,
    /// The drop reason for any source, or none if the source's rule decides.
    pub dropped: Option<Reason>,
}

/// Returns every encapsulation of packets from `source` to `port`. Neighbour discovery on the link is exempt and thus
/// missing.
#[must_use]
pub fn encapsulations(source: IpAddr, port: u16) -> Vec<Encapsulated> {
    let mut table = Vec::new();
    match source {
        IpAddr::V4(source) => {
            let mut add = |name: &str, packet: &[u8], tags, dropped| table.push(row(4, name, packet, tags, dropped));
            for (name, payload) in payloads(port).iter().chain(&payloads_v4()) {
                add(name, &payload.v4(source, |_| {}), &[], None);
            }
            for (name, tags, dropped) in TAGS {
                add(name, &Wrap::udp(port).v4(source, |_| {}), tags, dropped);
            }
            for (name, packet) in changed_v4(source, port) {
                add(&name, &packet, &[], None);
                add("options or fragments, QinQ", &packet, &[0x88a8, 0x8100], None);
            }
        }
        IpAddr::V6(source) => {
            let mut add = |name: &str, packet: &[u8], tags, dropped| table.push(row(6, name, packet, tags, dropped));
            for (name, payload) in payloads(port).iter().chain(&payloads_v6()) {
                add(name, &payload.v6(source, 64), &[], None);
            }
            for (name, tags, dropped) in TAGS {
                add(name, &Wrap::udp(port).v6(source, 64), tags, dropped);
            }
            for (name, payload, dropped) in extended(port) {
                add(&name, &payload.v6(source, 64), &[], dropped);
                add("extension headers, QinQ", &payload.v6(source, 64), &[0x88a8, 0x8100], dropped);
            }
            for (name, payload, hop_limit) in discovery() {
                add(&name, &payload.v6(source, hop_limit), &[], None);
            }
            let mut jumbo = Wrap::udp(port).behind(HOP_BY_HOP).v6(source, 64);
            jumbo[4..6].copy_from_slice(&[0, 0]);
            add("jumbogram", &jumbo, &[], Some(Reason::Truncated));
        }
    }
    table
}

fn row(version: u8, name: &str, packet: &[u8], tags: &[u16], dropped: Option<Reason>) -> Encapsulated {
    Encapsulated {
        name: format!("IPv{version} {name}"),
        frame: framed(packet, tags),
        ip_at: 14 + 4 * tags.len(),
        dropped,
    }
}

/// Returns payloads of both families.
fn payloads(port: u16) -> Vec<(&'static str, Wrap)> {
    let v4 = Wrap::udp(port).v4(INNER.0, |_| {});
    let v6 = Wrap::udp(port).v6(INNER.1, 64);
    let [high, low] = port.to_be_bytes();
    let sctp = [0xc3, 0x50, high, low, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 4];
    vec![
        ("UDP", Wrap::udp(port)),
        ("TCP SYN", Wrap::tcp(port, true)),
        ("TCP ACK", Wrap::tcp(port, false)),
        ("SCTP", Wrap::new(132, sctp)),
        ("GRE", Wrap::new(47, [&[0, 0, 8, 0][..], &v4].concat())),
        ("ESP", Wrap::new(50, [&[0, 0, 0, 1, 0, 0, 0, 1][..], &[0xee; 32]].concat())),
        ("IPv4 inside", Wrap::new(4, v4)),
        ("IPv6 inside", Wrap::new(41, v6)),
        ("unknown protocol 253", Wrap::new(253, [0xff; 16])),
        ("unknown protocol without payload", Wrap::new(253, [])),
    ]
}

fn payloads_v4() -> Vec<(&'static str, Wrap)> {
    vec![
        ("ICMP echo", Wrap::new(1, [8, 0, 0, 0, 0, 1, 0, 1])),
        ("authentication header", Wrap::udp(9).behind(AUTHENTICATION)),
        ("protocol number of hop-by-hop options", Wrap::udp(9).behind(HOP_BY_HOP)),
        ("protocol number of ICMPv6, type 135", Wrap::new(ICMPV6, solicitation(135))),
    ]
}

fn payloads_v6() -> Vec<(&'static str, Wrap)> {
    vec![
        ("ICMPv6 echo", Wrap::new(ICMPV6, [128, 0, 0, 0, 0, 1, 0, 1])),
        ("no next header", Wrap::new(NO_NEXT, [])),
        ("bytes behind no next header", Wrap::new(NO_NEXT, [0xff; 16])),
        ("mobility header", Wrap::new(135, [NO_NEXT, 0, 0, 0, 0, 0, 0, 0])),
    ]
}

/// Returns IPv4 packets with options or as fragments.
fn changed_v4(source: Ipv4Addr, port: u16) -> Vec<(String, Vec<u8>)> {
    let (udp, syn) = (Wrap::udp(port), Wrap::tcp(port, true));
    let mut packets = Vec::new();
    for length in (4..=40).step_by(4) {
        let packet = udp.v4(source, |header| header.options = options(&vec![1; length]));
        packets.push((format!("options, header of {} bytes", 20 + length), packet));
    }
    for (name, kind) in
        [("record route", 7), ("loose source route", 131), ("router alert", 148), ("unknown option", 222)]
    {
        let packet = udp.v4(source, |header| header.options = options(&[kind, 7, 4, 192, 0, 2, 9, 0]));
        packets.push((name.to_owned(), packet));
    }
    for (name, offset, has_more) in FRAGMENTS {
        for payload in [&udp, &syn] {
            let packet = payload.v4(source, |header| {
                header.dont_fragment = false;
                (header.fragment_offset, header.more_fragments) = (fragment_offset(offset), has_more);
            });
            packets.push((name.to_owned(), packet));
        }
        let packet = udp.v4(source, |header| {
            header.options = options(&[1; 40]);
            (header.fragment_offset, header.more_fragments) = (fragment_offset(offset), has_more);
        });
        packets.push((format!("{name} with options"), packet));
    }
    packets
}

/// Fragments by name: the offset in units of 8 bytes, and the more-fragments flag.
const FRAGMENTS: [(&str, u16, bool); 5] = [
    ("first fragment", 0, true),
    ("second fragment, at 8 bytes", 1, true),
    ("later fragment", 185, true),
    ("last fragment", 185, false),
    ("last fragment of the longest packet", 0x1fff, false),
];

fn options(bytes: &[u8]) -> Ipv4Options {
    bytes.try_into().expect("up to 40 bytes in words fit")
}

/// Returns packets with extension headers, with their drop reason if it does not depend on the source.
fn extended(port: u16) -> Vec<(String, Wrap, Option<Reason>)> {
    let (udp, syn) = (Wrap::udp(port), Wrap::tcp(port, true));
    let mut packets = Vec::new();
    for (name, kind) in EXTENSIONS {
        packets.push((name.to_owned(), udp.clone().behind(kind), None));
        packets.push((name.to_owned(), syn.clone().behind(kind), None));
        packets.push((format!("{name} before no next header"), Wrap::new(NO_NEXT, []).behind(kind), None));
    }
    for (name, kind) in [("hop-by-hop options", HOP_BY_HOP), ("destination options", DESTINATION)] {
        packets.push((format!("{name} of 2048 bytes"), udp.clone().behind_longer(kind, u8::MAX), None));
    }
    for (name, offset, has_more) in FRAGMENTS {
        for payload in [&udp, &syn] {
            packets.push((name.to_owned(), payload.clone().fragment(offset, has_more), None));
        }
        let around = udp.clone().behind(DESTINATION).fragment(offset, has_more).behind(ROUTING).behind(HOP_BY_HOP);
        packets.push((format!("{name} between extension headers"), around, None));
        let twice = udp.clone().fragment(0, true).fragment(offset, has_more);
        packets.push((format!("{name} in a first fragment"), twice, None));
    }
    for count in 2..=CHAIN.len() {
        let chained = CHAIN[..count].iter().rev().fold(udp.clone(), |wrap, kind| wrap.behind(*kind));
        let dropped = (count > 8).then_some(Reason::TooManyHeaders);
        packets.push((format!("{count} extension headers"), chained, dropped));
    }
    packets
}

/// Returns neighbour discovery that is not exempt, with hop limits.
fn discovery() -> Vec<(String, Wrap, u8)> {
    let mut packets = Vec::new();
    for kind in 133..=137 {
        let message = Wrap::new(ICMPV6, solicitation(kind));
        for hop_limit in [0, 1, 64, 254] {
            packets.push(("neighbour discovery from another link".to_owned(), message.clone(), hop_limit));
        }
        for (name, header) in EXTENSIONS {
            packets.push((format!("neighbour discovery behind {name}"), message.clone().behind(header), 255));
        }
        packets.push(("neighbour discovery in a first fragment".to_owned(), message.clone().fragment(0, true), 255));
        packets.push(("neighbour discovery in a later fragment".to_owned(), message.fragment(1, false), 255));
    }
    for kind in [127, 128, 129, 132, 138, 143] {
        let message = Wrap::new(ICMPV6, solicitation(kind));
        packets.push(("ICMPv6 of another type, hop limit 255".to_owned(), message, 255));
    }
    packets
}

/// Returns an ICMPv6 message of this type with the length of a neighbour solicitation.
fn solicitation(kind: u8) -> [u8; 24] {
    let mut message = [0; 24];
    message[0] = kind;
    message
}
