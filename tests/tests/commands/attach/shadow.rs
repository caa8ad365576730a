//! `attach --shadow`: every packet passes and is counted as a would-be drop.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::json;

const ON: &str = "shadow mode: every packet passes, and drops are only counted";

#[test]
fn shadow_is_printed_persists_and_can_be_switched_off() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let everything = || ratelimit.json("status")["shadow"]["everything"].clone();
    let text = ratelimit.ok("attach --shadow eth0 --packets 5/s");
    assert!(text.contains(&format!("default: 5/s per source, burst 5\n{ON}\n")), "{text}");
    let in_status = format!("\n{ON} (to enforce: `ratelimit set --shadow off`)\n");
    for words in ["attach eth0", "limit set default --packets 6/s --algorithm sliding-log", "limit del default"] {
        ratelimit.ok(words);
        assert_eq!(everything(), json!(true), "{words}");
        assert!(ratelimit.ok("status").contains(&in_status), "{words}");
    }
    let text = ratelimit.ok("attach eth0");
    assert!(
        text.ends_with("\nshadow mode: every packet passes (to enforce: `ratelimit set --shadow off`)\n"),
        "{text}"
    );
    let text = ratelimit.ok("attach eth0 --shadow=off");
    assert!(text.contains("\nshadow mode: off, limits and denies are enforced\n"), "{text}");
    assert!(everything() == json!(false) && !ratelimit.ok("status").contains("shadow"));
    assert!(ratelimit.ok("attach eth0 --shadow=on").contains(ON));
    assert_eq!(everything(), json!(true));
    ratelimit.ok("detach --all");
    // A new instance enforces by default.
    ratelimit.ok("attach eth0 --packets 5/s");
    assert_eq!(everything(), json!(false));
    ratelimit.ok("detach --all");
}

#[test]
fn in_shadow_every_reason_is_counted_and_nothing_is_dropped() {
    for front in ["on", "off"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok(&format!("attach eth0 --shadow --packets 1/d --burst 3 --front {front} --sample off"));
        ratelimit.ok("deny add 10.9.0.67");
        let flood = |host: u8, packets| Flood::of(Frame::udp([10, 9, 0, host], 9)).send(&sandbox, packets);
        flood(66, 10);
        flood(67, 20);
        let status = ratelimit.json("status");
        let shadow = &status["shadow"];
        assert_eq!(status["dropped"], json!({"packets": 0, "bytes": 0}), "{front}");
        let traffic = |packets: u64| json!({"packets": packets, "bytes": packets * 60});
        assert_eq!(shadow["reasons"], json!({"over-packets": traffic(7), "denied": traffic(20)}), "{front}");
        assert_eq!((&shadow["would_drop"], &status["reasons"]["within-limit"]), (&traffic(27), &traffic(3)), "{front}");
        let sources = ratelimit.json("sources");
        for (number, (source, would)) in [("10.9.0.67", 20), ("10.9.0.66", 7)].into_iter().enumerate() {
            let row = &sources[number];
            let counted = json!({"packets": would, "bytes": would * 60, "estimated": false});
            assert_eq!((&row["source"], &row["would_drop"]), (&json!(source), &counted), "{front}: {sources}");
            assert_eq!(row["dropped"]["packets"], 0, "{front}: {sources}");
        }
        // Enforcement applies to the next packet.
        ratelimit.ok("attach eth0 --shadow=off");
        flood(66, 1);
        flood(67, 1);
        let status = ratelimit.json("status");
        assert_eq!(
            (&status["dropped"]["packets"], &status["shadow"]["would_drop"]),
            (&json!(2), &traffic(27)),
            "{front}"
        );
        ratelimit.ok("detach --all");
    }
}

/// The operator sees that kept rules would block traffic, before they do.
#[test]
fn kept_rules_drop_nothing_on_an_interface_that_is_attached_in_shadow() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.66");
    ratelimit.ok("detach eth0");
    let flood = Flood::of(Frame::udp([10, 9, 0, 66], 9)).start(&sandbox);
    ratelimit.ok("attach eth0 --shadow");
    let sent = flood.sent();
    while flood.sent() < sent + 1_000 {
        std::thread::yield_now();
    }
    flood.stop();
    let status = ratelimit.json("status");
    assert_eq!(status["dropped"]["packets"], 0, "{status}");
    assert!(status["shadow"]["would_drop"]["packets"].as_u64().unwrap() >= 1_000, "{status}");
    ratelimit.ok("detach --all");
}
