//! `cost`: the cost of packets by service.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::{Value, json};

fn packets(ratelimit: &Ratelimit<'_>, reason: &str) -> u64 {
    ratelimit.json("status")["reasons"][reason]["packets"].as_u64().unwrap()
}

/// Returns the list of costs in ascending order.
fn sorted(ratelimit: &Ratelimit<'_>) -> Value {
    let mut list = ratelimit.json("cost list");
    list.as_array_mut().unwrap().sort_by_key(|row| row["cost"].as_u64());
    list
}

#[test]
fn costs_are_set_replaced_listed_and_deleted() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.ok("cost list"), "no costs: every packet counts as one\n");
    assert_eq!(ratelimit.json("cost list"), json!([]));
    assert_eq!(ratelimit.ok("cost set udp/53 50"), "udp/53: each packet counts as 50\n");
    assert_eq!(ratelimit.json("cost set tcp-syn 1"), json!({"service": "tcp-syn", "cost": 1, "origin": "command"}));
    assert_eq!(ratelimit.ok("cost set udp/53 7"), "udp/53: each packet counts as 7\n");
    let list = sorted(&ratelimit);
    assert_eq!(
        list,
        json!([{"service": "tcp-syn", "cost": 1, "origin": "command"}, {"service": "udp/53", "cost": 7, "origin": "command"}])
    );
    let table = ratelimit.ok("cost list");
    assert!(table.starts_with("service  cost  origin\n") && table.contains("udp/53      7  command\n"), "{table}");
    // A limit of the service comes and goes while its cost stays.
    ratelimit.ok("limit set default --service udp/53 --packets 5/s");
    ratelimit.ok("limit del default --service udp/53");
    assert_eq!(sorted(&ratelimit), list);
    assert_eq!(ratelimit.json("cost del udp/53"), json!({"deleted": "udp/53"}));
    assert_eq!(ratelimit.ok("cost del tcp-syn"), "tcp-syn: cost deleted\n");
    assert_eq!(ratelimit.json("cost list"), json!([]));
    ratelimit.ok("detach --all");
}

#[test]
fn invalid_costs_are_refused_and_missing_costs_exit_with_status_1() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let line = ratelimit.fails("cost set udp/53 5");
    assert_eq!(
        line,
        "ratelimit: ratelimit is not attached in /sys/fs/bpf/ratelimit: run `ratelimit attach IFACE` first"
    );
    ratelimit.ok("attach eth0");
    ratelimit.ok("cost set udp/53 5");
    let running = || ratelimit.json("status")["interfaces"].clone();
    let before = running();
    let help = "(see `ratelimit help cost set`)";
    for (words, expected) in [
        ("udp/53 0", "invalid value '0' for '<N>': 0 is not in 1..=50"),
        ("udp/53 51", "invalid value '51' for '<N>': 51 is not in 1..=50"),
        ("udp/53 -1", "unexpected argument '-1' found"),
        ("udp/53 many", "invalid value 'many' for '<N>': expected a whole number"),
        ("udp/53", "the following required arguments were not provided: <N>"),
        (
            "any 5",
            "invalid value 'any' for '<PROTO[/PORT[-PORT]]>': expected tcp, udp or sctp with or without a port (udp/53), tcp-syn, icmp, gre, esp, ah, ipip, or a protocol number",
        ),
    ] {
        assert_eq!(ratelimit.fails(&format!("cost set {words}")), format!("ratelimit: {expected} {help}"), "{words}");
        assert_eq!(
            (ratelimit.json("cost list"), running()),
            (json!([{"service": "udp/53", "cost": 5, "origin": "command"}]), before.clone())
        );
    }
    // A service with a limit has a class, but no cost.
    ratelimit.ok("limit set default --service tcp --packets 5/s");
    let before = running();
    assert_eq!(ratelimit.ok("cost del udp --if-exists"), "udp has no cost\n");
    for service in ["tcp", "udp", "udp/54"] {
        let output = ratelimit.run(&format!("cost del {service}"));
        let expected = format!("{service} has no cost\n");
        assert_eq!((output.status, output.stdout, output.stderr), (1, expected, String::new()));
    }
    let output = ratelimit.run("cost del udp/54 -j");
    let answer: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.status, answer), (1, json!({"deleted": null, "message": "udp/54 has no cost"})));
    assert_eq!(running(), before);
    ratelimit.ok("detach --all");
}

#[test]
fn a_cost_applies_from_the_next_packet_on() {
    for front in ["on", "off"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok(&format!("attach eth0 --packets 1/d --burst 40 --front {front}"));
        let passed_of = |source: [u8; 4], port| {
            let before = packets(&ratelimit, "within-limit");
            Flood::of(Frame::udp(source, port)).send(&sandbox, 60);
            packets(&ratelimit, "within-limit") - before
        };
        assert_eq!(passed_of([10, 9, 1, 1], 53), 40, "{front}");
        ratelimit.ok("cost set udp/53 10");
        assert_eq!((passed_of([10, 9, 1, 2], 53), passed_of([10, 9, 1, 3], 54)), (4, 40), "{front}");
        // Both kinds of packets are charged to one limit.
        assert_eq!((passed_of([10, 9, 1, 4], 53), passed_of([10, 9, 1, 4], 54)), (4, 0), "{front}");
        // The cost of the narrowest service applies.
        ratelimit.ok("cost set udp 20");
        assert_eq!((passed_of([10, 9, 1, 5], 53), passed_of([10, 9, 1, 6], 54)), (4, 2), "{front}");
        ratelimit.ok("cost del udp/53");
        assert_eq!(passed_of([10, 9, 1, 7], 53), 2, "{front}");
        ratelimit.ok("cost del udp");
        assert_eq!(passed_of([10, 9, 1, 8], 53), 40, "{front}");
        // Windows count costs too. Sliding logs count packets.
        ratelimit.ok("cost set udp/53 10");
        ratelimit.ok("limit set default --packets 40/d --algorithm sliding-log --replace");
        assert_eq!((passed_of([10, 9, 1, 9], 53), passed_of([10, 9, 1, 10], 54)), (40, 40), "{front}");
        ratelimit.ok("limit set default --packets 40/d --algorithm sliding-window --replace");
        assert_eq!((passed_of([10, 9, 1, 11], 53), passed_of([10, 9, 1, 12], 54)), (4, 40), "{front}");
        ratelimit.ok("detach --all");
    }
}
