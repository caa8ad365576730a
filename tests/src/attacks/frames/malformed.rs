//! Packets whose headers contradict themselves or end early.

use std::net::Ipv6Addr;

use crate::{
    Flood, Frame,
    attacks::{
        row::Row,
        stage::{FORGED, PORT, Stage, honest_sources},
    },
};

/// Offset of the IP header.
const IP: usize = 14;
const PACKETS: u64 = 200_000;
const NEWCOMERS: u32 = 2_000;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s");
    for frame in frames() {
        stage.attack(&Flood::of(frame), PACKETS);
    }
    stage.honest(&honest_sources(NEWCOMERS), 5 * u64::from(NEWCOMERS), 10_000);
    stage.row("200,000 packets each of nine kinds of malformed headers, then newcomers", Some(0))
}

fn frames() -> [Vec<u8>; 9] {
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x66);
    let (v4, v6) = (Frame::udp(FORGED, PORT).bytes(), Frame::udp(v6, PORT).bytes());
    let with = |frame: &[u8], at: usize, value: &[u8]| {
        let mut frame = frame.to_vec();
        frame[IP + at..][..value.len()].copy_from_slice(value);
        frame
    };
    [
        // Another version than the Ethernet type says.
        with(&v4, 0, &[0x65]),
        with(&v6, 0, &[0x45]),
        // A header shorter than the shortest one, and longer than the packet.
        with(&v4, 0, &[0x44]),
        with(&v4, 0, &[0x4f]),
        // A packet shorter than its header, and longer than the frame.
        with(&v4, 2, &[0, 19]),
        with(&v4, 2, &[0xff, 0xff]),
        with(&v6, 4, &[0xff, 0xff]),
        // Frames that end within the header.
        v4[..IP + 19].to_vec(),
        v6[..IP + 39].to_vec(),
    ]
}
