//! What a scan of all ports finds while ratelimit answers SYNs, and what it costs others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    time::Instant,
};

use ratelimit_tests::{
    Frame, FrameReceiver, PATIENCE, PEER_LINK, Ratelimit, RawSocket, Sandbox, Segment, Sink, VICTIM_IPV4, VICTIM_LINK,
};

use super::forge;
use crate::receiver::alone;

/// The scanner has 256 addresses, so that none becomes known by habit.
const SCANNER: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 77, 0, 0), 24);
/// Forged SYNs per second to an open port.
const FLOOD: u32 = 100_000;
/// Listeners of each kind: on all addresses of both families, and on one address.
const LISTENERS: usize = 3;
/// Ports that are probed by other segments than SYNs.
const PROBED: u16 = 1_024;

/// Returns frames and bytes that a link of this thread's network namespace has received. Frames of a socket count without
/// their Ethernet header, so there may be more bytes.
fn received(link: &str) -> [u64; 2] {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(link)?.strip_prefix(':')).unwrap();
    let mut numbers = line.split_whitespace().map(|number| number.parse().unwrap());
    let [bytes, frames] = [numbers.next().unwrap(), numbers.next().unwrap()];
    [frames, bytes]
}

/// Counts the answers to probes by port, and resets. All must be correct.
fn hear(frames: &FrameReceiver, probe: impl Fn(u16) -> Segment, found: &mut BTreeMap<u16, u32>, resets: &mut u64) {
    while let Some(frame) = frames.next() {
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        let (header, _) = probe(port).answer(&[], &frame).unwrap();
        if header.rst {
            *resets += 1;
        } else {
            assert!(header.syn && header.ack && frame.len() <= 60, "{frame:x?}");
            *found.entry(port).or_default() += 1;
        }
    }
}

#[test]
fn a_scan_of_all_ports_finds_the_listeners_and_sends_no_one_more_than_it_cost() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // Answers to forged addresses end here.
    let _peer = Sink::passing_to(&sandbox, SCANNER);
    let all = Ipv6Addr::UNSPECIFIED.into();
    let addresses = [all, VICTIM_IPV4.into()].into_iter().flat_map(|address| [address; LISTENERS]);
    let listen = |address| TcpListener::bind(SocketAddr::new(address, 0)).unwrap();
    let listeners: Vec<_> = sandbox.victim(|| addresses.map(listen).collect());
    let open: BTreeSet<_> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    let target = *open.first().unwrap();
    sandbox.set_syn_cookies("2");
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 100k/s --unknown 1/s --prove tcp"));
    let frames = FrameReceiver::at_the_peer(&sandbox);
    let sender = sandbox.peer(|| RawSocket::of(PEER_LINK));
    let (before_in, before_out) = (sandbox.victim(|| received(VICTIM_LINK)), sandbox.peer(|| received(PEER_LINK)));
    let forged = forge(&sandbox, Frame::syn(Ipv4Addr::new(192, 0, 2, 1), target), FLOOD);

    // Each address of the scanner has 256 ports.
    let probe = |port: u16| {
        let from = SCANNER.0 | Ipv4Addr::from_bits(u32::from(port >> 8));
        Segment::syn((from, 5_000).into(), (VICTIM_IPV4, port).into())
    };
    // The least that a scanner can send, and once more, since a full queue of the link may lose a frame.
    for port in (0..=u16::MAX).chain(0..=u16::MAX) {
        sender.send(&Segment { options: Vec::new(), ..probe(port) }.frame(&[]));
    }
    // The other ways to scan: FIN, NULL, XMAS, SYN with RST, ACK and SYN-ACK.
    let (xmas, reset) = (Segment::FIN | Segment::PSH | Segment::URG, Segment::SYN | Segment::RST);
    let ways = [(Segment::FIN, None), (0, None), (xmas, None), (reset, None), (0, Some(1)), (Segment::SYN, Some(1))];
    for port in (1..=PROBED).chain(open.iter().copied()) {
        for (flags, acknowledgement) in ways {
            sender.send(&Segment { flags, acknowledgement, ..probe(port) }.frame(&[]));
        }
    }
    let sent = forged.stop();

    let (mut found, mut resets, deadline) = (BTreeMap::new(), 0, Instant::now() + PATIENCE);
    while found.len() < open.len() {
        assert!(Instant::now() < deadline, "{found:?} of {open:?}");
        hear(&frames, probe, &mut found, &mut resets);
    }
    let status = ratelimit.json("status")["unknown"].clone();
    hear(&frames, probe, &mut found, &mut resets);
    assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), open);
    assert!(found.values().all(|answers| *answers <= 2), "{found:?}");
    // The answers first, since more frames may still arrive.
    let [out, incoming] = [sandbox.peer(|| received(PEER_LINK)), sandbox.victim(|| received(VICTIM_LINK))];
    let (out, incoming) =
        ([0, 1].map(|what| out[what] - before_out[what]), [0, 1].map(|what| incoming[what] - before_in[what]));
    let cookies = status["proofs"]["cookies"]["sent"].as_u64().unwrap();
    println!("frames and bytes in: {incoming:?}, out: {out:?}; {cookies} cookies, {sent} forged SYNs");
    assert!(cookies > sent / 2 && out[0] > sent / 2, "{cookies} cookies and {out:?} for {sent} SYNs");
    assert!(out[0] <= incoming[0] && out[1] <= incoming[1], "{incoming:?} {out:?}");
    // The stack answers what passes within the rate.
    let passed = status["passed"].as_u64().unwrap();
    assert!(resets <= passed && passed < 100, "{resets} resets, {passed} passed");
    ratelimit.ok("detach --all");
}
