//! Replies to a flood: within their budget, and each one valid.

use std::{
    net::{Ipv4Addr, Ipv6Addr, UdpSocket},
    thread,
    time::Instant,
};

use ratelimit_tests::{Flood, Frame, FrameReceiver, MAC, PATIENCE, Ratelimit, Sandbox, Sink, VICTIM_LINK, reply};

use crate::receiver::{PORT, alone};

const V4: Ipv4Addr = Ipv4Addr::new(10, 9, 3, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 3, 0, 0, 0, 1);
const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 0xc];
/// Replies per second.
const RATE: u32 = 1_000;
/// The burst: a tenth of a second's replies.
const BURST: u32 = 100;

/// Returns one frame of each kind with its name.
fn frames() -> [(&'static str, Vec<u8>); 5] {
    [
        ("SYN over IPv4", Frame::syn(V4, PORT).bytes()),
        ("UDP over IPv4", Frame::udp(V4, PORT).length(200).bytes()),
        ("ping over IPv4", Frame::echo(V4).bytes()),
        ("SYN over IPv6", Frame::syn(V6, PORT).bytes()),
        ("UDP over IPv6", Frame::udp(V6, PORT).length(200).bytes()),
    ]
}

/// Waits for as many frames as the program counted replies.
fn heard(receiver: &FrameReceiver, sent: u64) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut frames = Vec::new();
    while (frames.len() as u64) < sent {
        match receiver.next() {
            Some(frame) => frames.push(frame),
            None => {
                assert!(Instant::now() < deadline, "{} of {sent} replies have arrived", frames.len());
                thread::yield_now();
            }
        }
    }
    // No further reply arrives.
    frames.extend(receiver.next());
    frames
}

#[test]
fn replies_to_a_flood_stay_within_the_budget_and_are_valid() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let _peer = Sink::at_the_peer(&sandbox);
    let receiver = FrameReceiver::at_the_peer(&sandbox);
    let begin = Instant::now();
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/d --burst 1 --over-limit reject --replies {RATE}/s"));
    let count = |key: &str| ratelimit.json("status")["replies"][key].as_u64().unwrap();
    let each = 100_000;
    // A receiver without replies takes the packets within the limit. The victim's closed ports would reply by
    // themselves.
    let _taker = sandbox.victim(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT))).unwrap();
    for frame in [Frame::udp(V4, PORT), Frame::udp(V6, PORT)] {
        Flood::of(frame).send(&sandbox, 1);
    }
    let mut before = 0;
    for (name, mut frame) in frames() {
        // The link address belongs to neither end of the veth pair. The packet socket receives the replies
        // nevertheless.
        frame[6..12].copy_from_slice(&SENDER);
        Flood::of(frame.clone()).send(&sandbox, each);
        let sent = count("sent");
        assert!(sent > before, "{name}: no reply was sent");
        let expected = reply::expected(&frame).unwrap();
        println!("{name}:\n  {}\n  {} replies of\n  {}", hex(&frame), sent - before, hex(&expected));
        for heard in heard(&receiver, sent - before) {
            assert_eq!((hex(&heard), &heard[..12]), (hex(&expected), &[SENDER, MAC].concat()[..]), "{name}");
        }
        before = sent;
    }
    let most = f64::from(BURST) + f64::from(RATE) * begin.elapsed().as_secs_f64() + 1.0;
    assert!(before as f64 <= most, "{before} replies of at most {most:.0}");
    assert!(before >= u64::from(BURST), "{before} replies");
    // Every packet got a reply or was counted as unsent.
    assert_eq!(before + count("unsent"), 5 * each);
    let status = ratelimit.json("status");
    assert_eq!(status["reasons"]["over-packets"]["packets"], 5 * each);
    ratelimit.ok("detach --all");
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}
