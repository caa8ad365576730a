//! `--service` and `--parent`, and the program features that they need.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::json;

/// Returns the id of the attached program, which every replacement changes.
fn program(ratelimit: &Ratelimit<'_>) -> u64 {
    ratelimit.json("status")["interfaces"][0]["program_id"].as_u64().unwrap()
}

#[test]
fn a_service_has_its_own_limit() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 50 --front off");
    let lean = program(&ratelimit);
    let text = ratelimit.ok("limit set default --service udp/53 --packets 1/h --burst 3");
    assert_eq!(text, "default udp/53: 1/h per source, burst 3\n");
    let with_services = program(&ratelimit);
    assert_ne!(with_services, lean, "the program already has services");
    ratelimit.ok("limit set 10.9.0.0/24 --service tcp-syn --packets 1/h --burst 2 --for 1h");
    ratelimit.ok("deny add 10.9.0.66 --service icmp");
    assert_eq!(program(&ratelimit), with_services, "the next service replaced the program");
    for frame in [Frame::udp([10, 9, 0, 66], 53), Frame::syn([10, 9, 0, 66], 443), Frame::echo([10, 9, 0, 66])] {
        Flood::of(frame).send(&sandbox, 10);
    }
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 60);
    let sources = ratelimit.json("sources --sort passed");
    let row = |index: usize| {
        let row = &sources[index];
        let count = |verdict: &str| row[verdict]["packets"].as_u64().unwrap();
        (row["service"].as_str().unwrap(), row["policy"]["text"].as_str().unwrap(), count("passed"), count("dropped"))
    };
    assert_eq!(sources.as_array().unwrap().len(), 4);
    assert_eq!(row(0), ("any", "1/h", 50, 10));
    assert_eq!(row(1), ("udp/53", "1/h", 3, 7));
    assert_eq!(row(2), ("tcp-syn", "1/h", 2, 8));
    assert_eq!(row(3), ("icmp", "deny", 0, 10));

    let services = |words: &str| {
        let list = ratelimit.json(words);
        let rows = list.as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", row["source"], row["service"]).replace('"', "")).collect::<Vec<_>>()
    };
    assert_eq!(services("limit list"), ["default any", "default udp/53", "10.9.0.0/24 tcp-syn"]);
    assert_eq!(services("deny list"), ["10.9.0.66 icmp"]);

    // Deleting a rule needs its exact service.
    let negative = ratelimit.run("limit del default --service udp");
    let hint = "default udp has no limit: it has 1/h; 1/h --service udp/53\n";
    assert_eq!((negative.status, negative.stdout.as_str()), (1, hint));
    let negative = ratelimit.run("limit del 10.9.0.66 --service icmp");
    let hint = "10.9.0.66 icmp has no limit: it has deny --service icmp\n";
    assert_eq!((negative.status, negative.stdout.as_str()), (1, hint));
    ratelimit.ok("limit del default --service udp/53");
    ratelimit.ok("limit del 10.9.0.0/24 --service tcp-syn");
    assert_eq!(program(&ratelimit), with_services);
    assert_eq!(ratelimit.ok("deny del 10.9.0.66 --service icmp"), "10.9.0.66 icmp: no longer has the rule deny\n");
    assert_ne!(program(&ratelimit), with_services, "the program still has services");
    assert_eq!(services("limit list"), ["default any"]);
    ratelimit.ok("detach --all");
}

#[test]
fn parents_are_listed_as_they_were_set() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let lean = program(&ratelimit);
    let text =
        ratelimit.ok("limit set default --packets 1000/s --parent /24=20k/s --parent /48=50k/s --parent all=500k/s");
    let default = "default: 1000/s per source, burst 1000; parents /24=20k/s, /48=50k/s, all=500k/s\n";
    assert_eq!(text, default);
    assert_ne!(program(&ratelimit), lean);
    let text = ratelimit.ok("limit set 10.0.0.0/8 --service udp --parent interface=1MB/s,10/s");
    assert_eq!(text, "10.0.0.0/8 udp: no limit per source; parents interface=10/s,1MB/s\n");
    let parents: Vec<_> =
        ratelimit.json("limit list").as_array().unwrap().iter().map(|row| row["policy"]["parents"].clone()).collect();
    assert_eq!(parents, [json!(["/24=20k/s", "/48=50k/s", "all=500k/s"]), json!(["interface=10/s,1MB/s"])]);
    let table = ratelimit.ok("limit list");
    assert!(table.contains("/24=20k/s /48=50k/s all=500k/s"), "{table}");
    // Attach prints them too, and an attach with rates changes those with the same scope.
    assert!(ratelimit.ok("attach eth0").contains(default), "default");
    let line = ratelimit.ok("attach eth0 --packets 1000/s --parent /48=5k/s");
    assert!(
        line.contains("default: 1000/s per source, burst 1000; parents /24=20k/s, /48=5000/s, all=500k/s"),
        "{line}"
    );
    ratelimit.ok("attach eth0 --packets 9/s --parent off --parent all=1k/s");
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["parents"], json!(["all=1000/s"]));
    ratelimit.ok("limit del 10.0.0.0/8 --service udp");
    let with_parents = program(&ratelimit);
    ratelimit.ok("limit set default --parent off");
    assert_ne!(program(&ratelimit), with_parents, "the program still has parents");
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_parent_applies_per_interface() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // A second veth pair with both ends at the victim, without other traffic.
    sandbox.ip("link add eth1 type veth peer name far1");
    for link in ["eth1", "far1"] {
        sandbox.ip(&format!("link set {link} addrgenmode none"));
        sandbox.ip(&format!("link set {link} up"));
    }
    ratelimit.ok("attach eth0 eth1 --parent interface=1/h --parent all=15/h");
    let send = |host: u8| {
        let frame = Frame::udp([10, 9, 0, host], 9).bytes();
        Flood::of(frame.clone()).send(&sandbox, 10);
        sandbox.victim(|| ratelimit_tests::send_raw("far1", &frame, 10));
    };
    send(1);
    let passed = || ratelimit.json("status")["reasons"]["within-limit"]["packets"].as_u64().unwrap();
    assert_eq!(passed(), 2, "one packet passes per interface");
    ratelimit.ok("limit set default --parent interface=10/h --parent all=15/h");
    send(2);
    assert_eq!(passed(), 2 + 13, "two packets of the shared limit were spent before");
    assert_eq!(ratelimit.json("status")["reasons"]["over-parent"]["packets"], 40 - 15);
    ratelimit.ok("detach --all");
}

#[test]
fn invalid_services_and_parents_change_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 9/s");
    let before = (program(&ratelimit), ratelimit.ok("limit list"));
    for (words, expected) in [
        ("limit set default --packets 1/s --service dns", "expected tcp, udp or sctp with or without a port (udp/53)"),
        ("limit set default --packets 1/s --service udp/x", "expected a port from 0 to 65535"),
        ("limit set default --packets 1/s --service icmp/8", "only tcp, udp and sctp have ports"),
        ("limit set default --service udp", "a limit needs --packets RATE, --bytes RATE or --parent"),
        ("limit set default --parent 24=1/s", "expected /BITS, interface or all"),
        ("limit set default --parent all", "expected SCOPE=RATE"),
        ("limit set default --parent all=nothing", "expected a rate of packets or bytes"),
        ("limit set default --parent all=1/s --parent all=2/s", "two parents have the same scope"),
        (
            "limit set default --parent /8=1/s --parent /16=1/s --parent /24=1/s",
            "IPv4 sources would have more than 2 parents",
        ),
        (
            "limit set default --parent /16=1/s --parent interface=1/s --parent all=1/s",
            "IPv4 sources would have more than 2",
        ),
        ("limit set 10.0.0.0/8 --parent /48=1/s", "--parent /48 is no wider than a source, which has 32 bits"),
        ("limit set default --parent /32=1/s", "--parent /32 is no wider than a source, which has 32 bits"),
        ("limit set default --parent /64=1/s", "--parent /64 is no wider than a source, which has 64 bits"),
        ("limit set fd00::/96 --parent /96=1/s", "--parent /96 is no wider than a source, which has 96 bits"),
    ] {
        let line = ratelimit.fails(words);
        assert!(line.contains(expected), "{words}: {line}");
    }
    assert_eq!((program(&ratelimit), ratelimit.ok("limit list")), before);
    ratelimit.ok("detach --all");
}

#[test]
fn malformed_packets_pass_only_with_malformed_pass() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let mut malformed = Frame::udp([10, 9, 0, 66], 9).bytes();
    malformed[16..18].copy_from_slice(&[0, 19]);
    let mut truncated = Frame::udp([10, 9, 0, 66], 9).bytes();
    truncated[16..18].copy_from_slice(&[0xff, 0xff]);
    let count = |reason: &str| ratelimit.json("status")["reasons"][reason]["packets"].as_u64().unwrap();
    let send = || {
        for frame in [&malformed, &truncated] {
            Flood::of(frame.clone()).send(&sandbox, 3);
        }
        ["malformed", "truncated", "within-limit", "over-packets"].map(count)
    };
    ratelimit.ok("attach eth0 --packets 1/h --burst 4");
    assert_eq!(send(), [3, 3, 0, 0]);
    ratelimit.ok("attach eth0 --malformed pass");
    assert_eq!(send(), [3, 3, 4, 2], "their source is charged for them");
    assert_eq!(ratelimit.json("status")["malformed"], "pass");
    // The setting stays until it is changed.
    ratelimit.ok("limit set default --service udp/53 --packets 1/h");
    assert_eq!(send(), [3, 3, 4, 8]);
    ratelimit.ok("attach eth0 --malformed drop");
    assert_eq!(send(), [6, 6, 4, 8]);
    ratelimit.ok("detach --all");
}

#[test]
fn a_failed_attach_keeps_the_malformed_setting() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.fails("attach eth0 --malformed pass --parent /8=1/s --parent /24=1/s --parent all=1/s");
    assert_eq!(ratelimit.json("status")["malformed"], "drop");
    ratelimit.ok("detach --all");
}
