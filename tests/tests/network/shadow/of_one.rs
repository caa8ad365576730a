//! One interface in shadow: its packets pass, and the other interface enforces the same rules.

use std::{net::Ipv4Addr, thread};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::{Value, json};

use crate::receiver::{FLOODER, PORT, alone, receiving};

/// Attaches with a limit of three packets to two interfaces, `eth0` in shadow.
fn attached(sandbox: &Sandbox) -> Ratelimit<'_> {
    let ratelimit = Ratelimit::new(sandbox);
    sandbox.add_link("eth1", "far1");
    ratelimit.ok("attach eth1 --packets 3/d --sample off");
    let text = ratelimit.ok("attach eth0 --shadow");
    assert!(text.contains("shadow on eth0: every packet passes, and drops are only counted\n"), "{text}");
    ratelimit
}

/// Returns whether each interface is in shadow.
fn in_shadow(ratelimit: &Ratelimit<'_>) -> [bool; 2] {
    let status = ratelimit.json("status");
    assert_eq!(status["shadow"]["everything"], false);
    [0, 1].map(|at| status["interfaces"][at]["shadow"] == true)
}

/// Returns the packets that were dropped, and those that passed in shadow.
fn counts(ratelimit: &Ratelimit<'_>) -> [u64; 2] {
    let status = ratelimit.json("status");
    [&status["dropped"], &status["shadow"]["would_drop"]].map(|count: &Value| count["packets"].as_u64().unwrap())
}

#[test]
fn packets_of_one_interface_pass_in_shadow_and_those_of_the_other_are_dropped() {
    let sandbox = Sandbox::new();
    let ratelimit = attached(&sandbox);
    let flood =
        |link: &'static str, packets| Flood::of(Frame::udp(FLOODER, PORT)).through(link).send(&sandbox, packets);
    let received = |link: &'static str, packets| receiving(&sandbox, |_| flood(link, packets)).1.from(FLOODER).count;
    assert_eq!(in_shadow(&ratelimit), [true, false]);
    flood("far1", 100);
    assert_eq!(counts(&ratelimit), [97, 0]);
    assert_eq!(received("peer0", 1_000), 1_000);
    assert_eq!(counts(&ratelimit), [97, 1_000]);

    // A limit that needs another program keeps the shadow. A packet in shadow bans no source.
    let banned = Ipv4Addr::new(10, 9, 0, 67);
    ratelimit.ok("limit set 10.9.0.67 --packets 1/d --ban 1h --service udp/9");
    assert_eq!(in_shadow(&ratelimit), [true, false]);
    Flood::of(Frame::udp(banned, PORT)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("deny list"), json!([]));
    Flood::of(Frame::udp(banned, PORT)).through("far1").send(&sandbox, 100);
    assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.67");
    assert_eq!(counts(&ratelimit), [197, 1_099]);

    // Both directions.
    assert_eq!(
        ratelimit.ok("set --shadow off --interface eth0"),
        "shadow on eth0: off, limits and denies are enforced\n"
    );
    assert_eq!((in_shadow(&ratelimit), received("peer0", 100)), ([false, false], 0));
    let text = "shadow on eth0: every packet passes, and drops are only counted\n";
    assert_eq!(ratelimit.ok("set --shadow on --interface eth0"), text);
    assert_eq!((in_shadow(&ratelimit), received("peer0", 100)), ([true, false], 100));
    assert_eq!(counts(&ratelimit), [297, 1_199]);
    // From shadow for all, the others stay in shadow. The end of shadow for all is also that of one.
    ratelimit.ok("set --shadow on");
    ratelimit.ok("set --shadow off --interface eth1");
    assert_eq!(in_shadow(&ratelimit), [true, false]);
    assert_eq!(ratelimit.json("set --shadow off"), json!({"changed": [], "interfaces": ["eth0"]}));
    assert_eq!((in_shadow(&ratelimit), received("peer0", 100)), ([false, false], 0));
    assert!(ratelimit.fails("set --shadow on --interface eth9").contains("ratelimit is not attached to eth9"));
    assert!(ratelimit.fails("set --shadow on --unknown 5k/s --interface eth0").contains("goes only with --shadow"));
    ratelimit.ok("detach --all");
    assert!(sandbox.pins().is_empty());
}

#[test]
fn a_change_of_one_interfaces_shadow_leaves_no_gap_on_the_other() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = attached(&sandbox);
    let flood = Flood::of(Frame::udp(FLOODER, PORT)).through("far1").start(&sandbox);
    for shadow in ["off", "on", "off", "on"] {
        let seen = flood.sent();
        while flood.sent() < seen + 20_000 {
            thread::yield_now();
        }
        ratelimit.ok(&format!("set --shadow {shadow} --interface eth0"));
    }
    let sent = flood.stop();
    assert_eq!(counts(&ratelimit), [sent - 3, 0]);
    assert_eq!(ratelimit.json("status")["reasons"]["within-limit"]["packets"], 3);
    ratelimit.ok("detach --all");
}
