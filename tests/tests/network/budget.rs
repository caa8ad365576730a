//! Answers to a flood: no more than their budget, and each as it should be.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    thread,
    time::{Duration, Instant},
};

use etherparse::{NetSlice, SlicedPacket};
use ratelimit_tests::{Ear, Flood, Frame, MAC, Ratelimit, Sandbox, Sink, VICTIM_LINK, answer};

use crate::receiver::{PORT, alone};

const V4: Ipv4Addr = Ipv4Addr::new(10, 9, 3, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 3, 0, 0, 0, 1);
/// Answers per second.
const RATE: u32 = 1_000;
/// What may come at once: a tenth of a second's worth.
const BURST: u32 = 100;

/// One of each kind: its name, the frame, and whether it asks for a reset.
fn frames() -> [(&'static str, Vec<u8>); 6] {
    [
        ("SYN over IPv4", Frame::syn(V4, PORT).bytes()),
        ("ACK over IPv4", Frame::ack(V4, PORT).bytes()),
        ("UDP over IPv4", Frame::udp(V4, PORT).length(200).bytes()),
        ("ping over IPv4", Frame::echo(V4).bytes()),
        ("SYN over IPv6", Frame::syn(V6, PORT).bytes()),
        ("UDP over IPv6", Frame::udp(V6, PORT).length(200).bytes()),
    ]
}

/// Waits for as many frames as the program says it has answered, and no longer than ten seconds.
fn heard(ear: &Ear, sent: u64) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut frames = Vec::new();
    while (frames.len() as u64) < sent {
        match ear.next() {
            Some(frame) => frames.push(frame),
            None => {
                assert!(Instant::now() < deadline, "{} of {sent} answers have arrived", frames.len());
                thread::yield_now();
            }
        }
    }
    // Nor is there one more.
    frames.extend(ear.next());
    frames
}

#[test]
fn a_flood_is_answered_within_the_budget_and_every_answer_is_sound() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let _peer = Sink::at_the_peer(&sandbox);
    let ear = Ear::at_the_peer(&sandbox);
    let begin = Instant::now();
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/d --burst 1 --over-limit reject --replies {RATE}/s"));
    let count = |key: &str| ratelimit.json("status")["replies"][key].as_u64().unwrap();
    let each = 100_000;
    let mut before = 0;
    for (name, frame) in frames() {
        Flood::of(frame.clone()).send(&sandbox, each);
        let sent = count("sent");
        assert!(sent > before, "{name}: nothing was answered");
        let expected = answer::expected(&frame).unwrap();
        let length = length(&expected);
        // Both ends have the same link address, or these would be the other way round.
        assert_eq!(expected[..12], [MAC, MAC].concat());
        println!("{name}\n  {}\n  answered {} times by\n  {}", hex(&frame), sent - before, hex(&expected));
        for heard in heard(&ear, sent - before) {
            // The kernel may have taken the padding off already.
            let (heard, padding) = heard.split_at(length);
            assert_eq!(hex(heard), hex(&expected[..length]), "{name}");
            assert!(padding.iter().all(|byte| *byte == 0), "{name}: {padding:?}");
        }
        before = sent;
    }
    let most = f64::from(BURST) + f64::from(RATE) * begin.elapsed().as_secs_f64() + 1.0;
    assert!(before as f64 <= most, "{before} answers, {most:.0} may be");
    assert!(before >= u64::from(BURST), "{before} answers");
    // One of each family has passed; every other was answered, or counted as one that the budget was spent for.
    assert_eq!(before + count("unsent"), 6 * each - 2);
    let status = ratelimit.json("status");
    assert_eq!(status["reasons"]["over-packets"]["packets"], 6 * each - 2);
    ratelimit.ok("detach --all");
}

/// The length of a frame without padding.
fn length(frame: &[u8]) -> usize {
    match SlicedPacket::from_ethernet(frame).unwrap().net.unwrap() {
        NetSlice::Ipv4(ip) => 14 + usize::from(ip.header().total_len()),
        NetSlice::Ipv6(ip) => 54 + usize::from(ip.header().payload_length()),
        other => panic!("{other:?}"),
    }
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}
