//! `status`: the program, its interfaces and its counters.

mod gauges;
mod interface_counters;
mod totals;

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox, wait_until};
use serde_json::json;

use crate::{attach::program_id, run::FILE};

#[test]
fn status_has_the_documented_fields() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 3 --max-sources 1000");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    let id = program_id(&ratelimit);
    let mut status = ratelimit.json("status");
    // The rates depend on time.
    assert!(status.as_object_mut().unwrap().remove("read_at").unwrap().as_str().unwrap().ends_with('Z'));
    let rates = status.as_object_mut().unwrap().remove("rates").unwrap();
    assert_eq!(rates["last_minute"], json!(null), "{rates}");
    assert_eq!(rates["now"]["per_second"]["dropped"], json!({"packets": 0, "bytes": 0}), "{rates}");
    let reasons = status["reasons"].as_object_mut().unwrap();
    reasons.retain(|_, count| count["packets"] != 0);
    // `gauges.rs` covers the state of the program.
    for key in ["front", "admission", "sample", "unknown", "clock", "lost_races", "memory"] {
        assert!(status.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    assert_eq!(status["instance"].as_str().map(str::len), Some(16), "{status}");
    status.as_object_mut().unwrap().remove("instance");
    for time in ["first_seen_at", "last_seen_at"] {
        let time = status["worst"][0].as_object_mut().unwrap().remove(time).unwrap();
        assert!(time.as_str().is_some_and(|time| time.ends_with('Z')), "{time}");
    }
    // `own_network.rs` covers what is spared.
    let spared = status.as_object_mut().unwrap().remove("spared").unwrap();
    assert_eq!((&spared["denies"], &spared["lists"]), (&json!([]), &json!([])), "{spared}");
    let policy = json!({
        "text": "1/h", "kind": "limit", "name": null, "burst": 3, "algorithm": "token-bucket", "throttle": "hard",
        "packets": [{"amount": 1, "seconds": 3_600, "text": "1/h"}], "bytes": null, "over_limit": "drop", "ban": null,
        "parents": [],
    });
    assert_eq!(
        status,
        json!({
            "schema": 1,
            "interfaces": [{"name": "eth0", "mode": "native", "program_id": id}],
            "lists": [],
            "diagnosis": "No packet is over a limit now.",
            "default_limits": [{"service": "any", "policy": policy}],
            "rules": {"limits": 0, "allows": 0, "denies": 0, "bans": 0, "stops": 0},
            "worst": [{
                "source": "10.9.0.66", "service": "any", "policy": policy,
                "passed": {"packets": 3, "bytes": 180, "estimated": true},
                "dropped": {"packets": 7, "bytes": 420, "estimated": false},
                "would_drop": {"packets": 0, "bytes": 0, "estimated": false},
                "per_second": {"passed": 0, "dropped": 0, "would_drop": 0, "estimated": true},
            }],
            "passed": {"packets": 3, "bytes": 180},
            "dropped": {"packets": 7, "bytes": 420},
            "reasons": {
                "within-limit": {"packets": 3, "bytes": 180},
                "over-packets": {"packets": 7, "bytes": 420},
            },
            "sources": {"tracked": 1, "buckets": 1, "max": 1_000, "estimated": false},
            "ipv6_prefix": 64, "malformed": "drop",
            "own": {"per_second": 1_000_000, "passed": 0, "looked_up": 1, "not_looked_up": 0},
            "replies": {"per_second": 100, "sent": 0, "unsent": 0},
            "shadow": {"everything": false, "would_drop": {"packets": 0, "bytes": 0}, "reasons": {}},
        })
    );
    let text = ratelimit.ok("status");
    assert!(text.starts_with(&format!("eth0: native, program {id}\ndefault: 1/h")), "{text}");
    assert!(text.contains("\nin total              3        7\n"), "{text}");
    assert!(text.ends_with("\n\nNo packet is over a limit now.\n"), "{text}");
    let details = ratelimit.ok("status -v");
    assert!(details.contains("over-packets  dropped        7    420"), "{details}");
    let replies = "\nanswers to rejected packets: 100/s in total; 0 sent, 0 not sent\n";
    assert!(!text.contains("answers") && details.contains(replies), "{text}");
    let own = "\nown connections: spared up to 1M/s from each source; 0 packets passed, 1 looked up\n";
    assert!(!text.contains("own connections") && ratelimit.ok("status -v").contains(own), "{text}");
    ratelimit.ok("set --own off");
    assert!(ratelimit.ok("status -v").contains("\nown connections: limited like all others\n"));
    assert_eq!(ratelimit.json("status")["own"], serde_json::Value::Null);
    ratelimit.ok("detach --all");
}

#[test]
fn a_source_over_its_limit_is_named_with_its_rate() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    assert!(ratelimit.ok("attach eth0 --shadow").contains("eth0"));
    assert!(ratelimit.ok("status").contains("\nNothing is limited, because there is no limit."));
    ratelimit.ok("limit set default --packets 10/s");
    ratelimit.ok("deny add 10.8.0.0/16");
    ratelimit.ok("allow add 10.7.0.1");
    assert!(ratelimit.ok("status").contains("\nrules: 1 allow, 1 deny\n"));
    let flood = Flood::of(Frame::udp([10, 9, 0, 66], 9)).pace(5_000).start(&sandbox);
    let diagnosis = || ratelimit.json("status")["diagnosis"].clone();
    let is_named = || diagnosis().as_str().unwrap().starts_with("10.9.0.66 sends ");
    wait_until("the diagnosis names the source", is_named);
    assert!(
        diagnosis()
            .as_str()
            .unwrap()
            .ends_with(" In shadow mode these packets pass. `ratelimit set --shadow off` enforces the limits.")
    );
    let status = ratelimit.json("status");
    let rate = status["rates"]["now"]["per_second"]["would_drop"]["packets"].as_u64().unwrap();
    assert!(rate > 0 && status["worst"][0]["source"] == "10.9.0.66", "{status}");
    flood.stop();
    ratelimit.ok("detach --all");
    assert!(ratelimit.fails("status").contains("not attached"));
}

#[test]
fn a_flood_from_forged_addresses_is_too_early_to_tell_right_after_an_attach() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let syn = Frame::syn([192, 0, 2, 1], 80);
    let flood = Flood::of(syn).endless(0).busy_pace(60_000).start(&sandbox);
    ratelimit.ok("attach eth0 --packets 5000/s");
    let diagnosis = || ratelimit.json("status")["diagnosis"].as_str().unwrap().to_owned();
    wait_until("it is too early to tell", || {
        diagnosis().contains("none over a limit. It is too early to tell whether")
    });
    wait_until("the packets are called likely forged", || diagnosis().contains("likely forged"));
    flood.stop();
    wait_until("no packet arrives", || ratelimit.ok("status").ends_with("\nNo packet is over a limit now.\n"));
    ratelimit.ok("detach --all");
}

#[test]
fn the_daemon_knows_the_rates_of_the_last_minute() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let flood = Flood::of(Frame::udp([10, 9, 0, 66], 9)).pace(1_000).start(&sandbox);
    let minute = || ratelimit.json("status")["rates"]["last_minute"].clone();
    let has_packets = || minute()["per_second"]["passed"]["packets"].as_u64().is_some_and(|rate| rate > 0);
    wait_until("the last minute has packets", has_packets);
    assert!(minute()["seconds"].as_f64().unwrap() <= 66.0, "{}", minute());
    assert!(ratelimit.ok("status").contains("\nper second, last minute "));
    flood.stop();
    daemon.end();
    ratelimit.ok("detach --all");
}
