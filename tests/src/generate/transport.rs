//! Payloads of IP.

use super::{
    draft::{Draft, Length},
    kind::Kind,
};

/// Ports with service rules, and some without.
const PORTS: [u16; 8] = [443, 443, 53, 53, 9, 9, 80, 0];

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Returns a protocol. ICMP is mostly of the same family.
pub(super) fn protocol(draft: &mut Draft, icmp: u8) -> u8 {
    match draft.random.below(100) {
        0..30 => 6,
        30..52 => 17,
        52..62 => 132,
        62..80 => icmp,
        80..84 => 47,
        84..87 => 50,
        87..90 => draft.random.among(&[4, 41]),
        90..95 => draft.random.among(&[200, 59, 51, 2, 58, 1, 135]),
        _ => draft.random.next() as u8,
    }
}

/// Appends the payload of this protocol.
pub(super) fn payload(draft: &mut Draft, protocol: u8) {
    match protocol {
        6 => tcp(draft),
        17 => udp(draft),
        132 => {
            ports(draft);
            draft.bytes(8);
            draft.kinds.add(Kind::Sctp);
        }
        1 | 58 => {
            let any = draft.random.next() as u8;
            let message = draft.random.among(&[128, 8, 13, 133, 134, 135, 136, 137, 132, 138, any]);
            draft.byte(message);
            draft.byte(0);
            draft.bytes(6);
            draft.kinds.add(Kind::Icmp);
        }
        47 => draft.kinds.add(Kind::Gre),
        50 => draft.kinds.add(Kind::Esp),
        4 | 41 => draft.kinds.add(Kind::Ipip),
        51 => authenticated(draft),
        _ => draft.kinds.add(Kind::OtherProtocol),
    }
    draft.data();
}

fn ports(draft: &mut Draft) {
    draft.bytes(2);
    let any = draft.random.next() as u16;
    let port = if draft.random.percent(75) { draft.random.among(&PORTS) } else { any };
    draft.word(port);
}

fn tcp(draft: &mut Draft) {
    ports(draft);
    draft.bytes(8);
    let options = if draft.random.percent(30) { draft.random.below(11) } else { 0 };
    draft.lengths.push(Length::HighNibble(draft.frame.len()));
    draft.byte((5 + options as u8) << 4);
    let any = draft.random.next() as u8;
    let flags = draft.random.among(&[SYN, SYN, SYN, SYN | 0xc0, SYN | ACK, ACK, ACK | 1, 4, any]);
    draft.byte(flags);
    draft.bytes(6 + 4 * options);
    draft.kinds.add(Kind::Tcp);
    if flags & (SYN | ACK) == SYN {
        draft.kinds.add(Kind::NewConnection);
    }
}

fn udp(draft: &mut Draft) {
    ports(draft);
    draft.lengths.push(Length::Word(draft.frame.len()));
    draft.word(8);
    draft.bytes(2);
    draft.kinds.add(Kind::Udp);
}

/// Appends an authentication header as payload of IPv4, followed by UDP.
fn authenticated(draft: &mut Draft) {
    draft.byte(17);
    draft.lengths.push(Length::Byte(draft.frame.len()));
    draft.byte(1);
    draft.bytes(10);
    udp(draft);
}
