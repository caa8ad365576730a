//! `attach --shadow`, observed at a socket.

mod of_one;

use std::thread;

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, VICTIM_LINK};

use crate::receiver::{BEHAVED, FLOODER, PORT, alone, receiving, source};

#[test]
fn in_shadow_every_packet_arrives_and_enforcement_applies_to_the_next() {
    for algorithm in ["token-bucket --burst 3", "sliding-log", "fixed-window"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok(&format!("attach {VICTIM_LINK} --shadow --packets 3/d --algorithm {algorithm} --sample off"));
        ratelimit.ok(&format!("deny add {BEHAVED}"));
        let flood = |from, packets| Flood::of(Frame::udp(from, PORT)).send(&sandbox, packets);
        let ((), received) = receiving(&sandbox, |_| {
            flood(FLOODER, 1_000);
            flood(BEHAVED, 100);
        });
        assert_eq!((received.from(FLOODER).count, received.from(BEHAVED).count), (1_000, 100), "{algorithm}");
        let status = ratelimit.json("status");
        let would = |reason: &str| status["shadow"]["reasons"][reason]["packets"].as_u64();
        assert_eq!((would("over-packets"), would("denied")), (Some(997), Some(100)), "{algorithm}");
        assert_eq!((&status["dropped"]["packets"], &status["passed"]["packets"]), (&0.into(), &1_100.into()));
        let row = source(&ratelimit, &FLOODER.to_string());
        assert_eq!((&row["would_drop"]["packets"], &row["dropped"]["packets"]), (&997.into(), &0.into()), "{row}");

        ratelimit.ok(&format!("attach {VICTIM_LINK} --shadow=off"));
        let ((), received) = receiving(&sandbox, |_| {
            flood(FLOODER, 10);
            flood(BEHAVED, 10);
        });
        assert_eq!((received.from(FLOODER).count, received.from(BEHAVED).count), (0, 0), "{algorithm}");
        assert_eq!(ratelimit.json("status")["dropped"]["packets"], 20, "{algorithm}");
        ratelimit.ok("detach --all");
    }
}

/// The switch replaces the program. No packet may be counted twice or not at all meanwhile.
#[test]
fn switching_shadow_under_a_flood_counts_every_packet_once() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --shadow --packets 1/d --burst 5"));
    let flood = Flood::of(Frame::udp(FLOODER, PORT)).start(&sandbox);
    for shadow in ["off", "on", "off", "on"] {
        let seen = flood.sent();
        while flood.sent() < seen + 100_000 {
            thread::yield_now();
        }
        ratelimit.ok(&format!("attach {VICTIM_LINK} --shadow={shadow}"));
    }
    let sent = flood.stop();
    let status = ratelimit.json("status");
    let count = |what: &serde_json::Value| what["packets"].as_u64().unwrap();
    let (would, dropped) = (count(&status["shadow"]["would_drop"]), count(&status["dropped"]));
    assert_eq!(would + dropped + 5, sent, "{status}");
    // Twice a hundred thousand each, minus packets in flight.
    assert!(would >= 190_000 && dropped >= 190_000, "{would} in shadow, {dropped} dropped");
    ratelimit.ok("detach --all");
}
