//! An upgrade from another version under traffic.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, VICTIM_LINK};
use serde_json::Value;

use crate::receiver::{FLOODER, PORT, alone, receiving};

/// Packets of a source until it waits for an hour.
const BURST: u64 = 10;

/// Returns all rules without their remaining time.
fn rules(ratelimit: &Ratelimit<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for list in ["limit list", "deny list", "allow list", "cost list"] {
        for row in ratelimit.json(list).as_array().unwrap() {
            let mut row = row.clone();
            if let Some(left) = row.get_mut("expires_in_seconds").filter(|left| left.is_number()) {
                *left = "some time".into();
            }
            all.push(row);
        }
    }
    all
}

#[test]
fn an_upgrade_keeps_rules_buckets_and_counters_and_lets_no_packet_through() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let (this, other) = (Ratelimit::new(&sandbox), Ratelimit::other(&sandbox));
    this.ok(&format!(
        "attach {VICTIM_LINK} --packets 1/h --burst {BURST} --max-sources 5000 --cells 4096 --malformed pass"
    ));
    for words in [
        "limit set 10.7.0.0/16 --packets 5/s --bytes 1MB/s",
        "limit set 10.7.0.1 --packets 5/s --for 1h",
        "limit set 2001:db8::/32 --packets 9/s --service udp/53 --algorithm sliding-window",
        "limit set default --packets 7/s --service tcp/22",
        "deny add 10.9.0.67",
        "allow add 10.7.1.0/24",
        "cost set udp/53 10",
    ] {
        this.ok(words);
    }
    let before = rules(&this);
    assert!(before.len() >= 8, "{before:?}");
    let ((), received) = receiving(&sandbox, |_| {
        // Alternates between a source over its limit and a denied one.
        let flood = Flood::of(Frame::udp(FLOODER, PORT)).sources(2).start(&sandbox);
        while flood.sent() < 10_000 {
            std::thread::yield_now();
        }
        for (old, new) in [(&this, &other), (&other, &this)] {
            let dropped = |ratelimit: &Ratelimit<'_>| ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
            let counted = dropped(old);
            // Only an upgrade brings new maps.
            let line = new.fails("status");
            assert!(line.contains("is of another version") && line.contains("`ratelimit upgrade`"), "{line}");
            new.ok("upgrade");
            assert_eq!(rules(new), before);
            assert!(dropped(new) >= counted);
            let status = new.json("status");
            assert_eq!((&status["sources"]["max"], &status["front"]["cells"]), (&5_000.into(), &4_096.into()));
            assert_eq!(status["malformed"], "pass");
            let bucket = crate::receiver::source(new, "10.9.0.66");
            assert!(bucket["dropped"]["packets"].as_u64().unwrap() > 0, "{bucket}");
        }
        let offered = flood.stop();
        println!("two upgrades during {offered} packets");
        assert!(offered > 50_000);
    });
    assert_eq!(received.from(FLOODER).count, BURST);
    assert_eq!(received.from([10, 9, 0, 67]).count, 0);
    this.ok("detach --all");
}
