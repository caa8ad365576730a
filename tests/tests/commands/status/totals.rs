//! The totals of `status` while limits, sizes and interfaces change.

use std::{collections::BTreeMap, thread};

use ratelimit_tests::{Flood, Folder, Frame, Ratelimit, Sandbox};
use serde_json::{Value, json};

/// Returns the packets and bytes of the instance by their place in `status`.
fn totals(status: &Value) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for part in ["passed", "dropped", "reasons", "shadow"] {
        collect(part, &status[part], &mut found);
    }
    found
}

fn collect(place: &str, value: &Value, found: &mut BTreeMap<String, u64>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect(&format!("{place}.{name}"), value, found));
        }
        Value::Number(number) => drop(found.insert(place.to_owned(), number.as_u64().unwrap())),
        _ => {}
    }
}

#[test]
fn no_total_falls_while_limits_sizes_and_shadow_change_under_a_flood() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // Few cells, so that cached refusals give way to each other.
    ratelimit.ok("attach eth0 --packets 6/m --cells 1024");
    let changes = [
        "set --shadow on",
        "limit set 10.9.0.0/16 --packets 1/m --over-limit shadow",
        "set --shadow off",
        "set --cells 2048 --max-sources 20000",
        "limit set default --packets 7/m",
        "deny add 10.9.1.7",
        "limit del 10.9.0.0/16",
        "set --unknown 10k/s",
        "upgrade",
    ];
    thread::scope(|scope| {
        let operator = scope.spawn(|| {
            let mut before = totals(&ratelimit.json("status"));
            for change in changes {
                ratelimit.ok(change);
                for _ in 0..3 {
                    let now = totals(&ratelimit.json("status"));
                    for (place, count) in &before {
                        assert!(now.get(place).is_none_or(|now| now >= count), "{change}: {place} {count} {now:?}");
                    }
                    before = now;
                }
            }
            assert!(before["reasons.over-packets.packets"] > 1_000, "{before:?}");
        });
        while !operator.is_finished() {
            Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(200).send(&sandbox, 2_000);
        }
        operator.join().unwrap();
    });
    ratelimit.ok("detach --all");
}

#[test]
fn since_a_file_only_later_packets_count() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    ratelimit.ok("attach eth0 --packets 1/h --burst 3");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    let before = ratelimit.json("status");
    folder.write(&before.to_string());
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 5);
    Flood::of(Frame::udp([10, 9, 0, 67], 9)).send(&sandbox, 2);
    let since = format!("status --since {}", folder.file().display());
    let status = ratelimit.json(&since);
    let of = |status: &Value| [&status["passed"]["packets"], &status["dropped"]["packets"]].map(Value::as_u64);
    assert_eq!((of(&before), of(&status)), ([Some(3), Some(7)], [Some(2), Some(5)]));
    assert_eq!([&status["reasons"]["over-packets"]["packets"], &status["since_at"]], [&json!(5), &before["read_at"]]);
    let text = ratelimit.ok(&since);
    let row = text.lines().find(|line| line.starts_with("since 2")).unwrap();
    assert!(row.contains("Z       2        5"), "{text}");
    // Nobody else's totals have changed.
    assert_eq!(of(&ratelimit.json("status")), [Some(5), Some(12)]);

    ratelimit.ok("detach --all");
    ratelimit.ok("attach eth0 --packets 1/h --burst 3");
    assert!(ratelimit.fails(&since).contains("attached anew"));
    // Higher totals of another instance are no later ones.
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    Flood::of(Frame::udp([10, 9, 0, 67], 9)).send(&sandbox, 10);
    assert!(ratelimit.fails(&since).contains("attached anew"));
    folder.write(&status.to_string());
    assert!(ratelimit.fails(&since).contains("has differences: write it without --since"));
    folder.write("{}");
    assert!(ratelimit.fails(&since).contains("is no output of `ratelimit status -j`"));
    ratelimit.ok("detach --all");
}
