//! `status`: the program, its interfaces and its counters.

mod gauges;
mod interface_counters;

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::json;

use crate::attach::program_id;

#[test]
fn status_has_the_documented_fields() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 3 --max-sources 1000");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    let id = program_id(&ratelimit);
    let mut status = ratelimit.json("status");
    let reasons = status["reasons"].as_object_mut().unwrap();
    reasons.retain(|_, count| count["packets"] != 0);
    // `gauges.rs` covers the state of the program.
    for key in ["front", "admission", "sample", "unknown", "clock", "lost_races", "memory"] {
        assert!(status.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    assert_eq!(
        status,
        json!({
            "interfaces": [{"name": "eth0", "mode": "native", "program_id": id}],
            "lists": [],
            "passed": {"packets": 3, "bytes": 180},
            "dropped": {"packets": 7, "bytes": 420},
            "reasons": {
                "within-limit": {"packets": 3, "bytes": 180},
                "over-packets": {"packets": 7, "bytes": 420},
            },
            "sources": {"tracked": 1, "buckets": 1, "max": 1_000},
            "ipv6_prefix": 64, "malformed": "drop",
            "own": {"per_second": 1_000_000, "passed": 0, "looked_up": 1, "not_looked_up": 0},
            "replies": {"per_second": 100, "sent": 0, "unsent": 0},
            "shadow": {"everything": false, "would_drop": {"packets": 0, "bytes": 0}, "reasons": {}},
        })
    );
    let text = ratelimit.ok("status");
    assert!(text.contains(&format!("eth0: native, program {id}\n")), "{text}");
    assert!(text.contains("over-packets  dropped        7    420"), "{text}");
    // Without reject, nothing about replies is shown by default.
    let replies = "\nanswers to rejected packets: 100/s in total; 0 sent, 0 not sent\n";
    assert!(!text.contains("answers") && ratelimit.ok("status -v").contains(replies), "{text}");
    let own = "\nown connections: spared up to 1M/s from each source; 0 packets passed, 1 looked up\n";
    assert!(!text.contains("own connections") && ratelimit.ok("status -v").contains(own), "{text}");
    ratelimit.ok("set --own off");
    assert!(ratelimit.ok("status -v").contains("\nown connections: limited like all others\n"));
    assert_eq!(ratelimit.json("status")["own"], serde_json::Value::Null);
    ratelimit.ok("detach --all");
}
