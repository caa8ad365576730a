//! Counters by interface and by policy.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_common::maps::control::FEATURE_INTERFACES;
use ratelimit_tests::{Flood, Folder, Frame, Ratelimit, Sandbox, send_raw};

use crate::{
    limit::features::{features, program},
    metrics::{FILE, scrape, start},
};

/// Adds an interface `ethN`. Its other end `farN` is at the victim too, without other traffic.
fn add_interface(sandbox: &Sandbox, number: u32) {
    sandbox.ip(&format!("link add eth{number} type veth peer name far{number}"));
    for link in [format!("eth{number}"), format!("far{number}")] {
        sandbox.ip(&format!("link set {link} addrgenmode none"));
        sandbox.ip(&format!("link set {link} up"));
    }
}

fn send(sandbox: &Sandbox, number: u32, host: u8, packets: usize) {
    let frame = Frame::udp([10, 9, 0, host], 9).bytes();
    match number {
        0 => Flood::of(frame).send(sandbox, packets as u64),
        _ => sandbox.victim(|| send_raw(&format!("far{number}"), &frame, packets)),
    }
}

/// Returns packets of an interface within and over the limit, or nothing if it is not shown.
fn counted(ratelimit: &Ratelimit<'_>, interface: &str) -> Option<(f64, f64)> {
    let scrape = scrape(ratelimit);
    let get = |verdict: &str, reason: &str| {
        let labels = format!("{{interface=\"{interface}\",verdict=\"{verdict}\",reason=\"{reason}\"}}");
        let packets = *scrape.get(&format!("ratelimit_interface_packets_total{labels}"))?;
        let bytes = packets * Frame::udp([10, 9, 0, 7], 9).bytes().len() as f64;
        assert_eq!(scrape[&format!("ratelimit_interface_bytes_total{labels}")], bytes, "{labels}");
        Some(packets)
    };
    Some((get("pass", "within-limit")?, get("drop", "over-packets")?))
}

/// Returns the same counters of all interfaces.
fn all(scrape: &BTreeMap<String, f64>) -> (f64, f64) {
    let get = |labels: &str| scrape[&format!("ratelimit_packets_total{{{labels}}}")];
    (get("verdict=\"pass\",reason=\"within-limit\""), get("verdict=\"drop\",reason=\"over-packets\""))
}

#[test]
fn each_interface_has_its_own_counters_while_others_change() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    (1..=2).for_each(|number| add_interface(&sandbox, number));
    let daemon = start(&sandbox, &ratelimit, &folder, FILE);
    let is_on = || features(&sandbox) & FEATURE_INTERFACES != 0;
    send(&sandbox, 0, 7, 100);
    assert!(!is_on(), "one interface uses the feature");
    assert_eq!((counted(&ratelimit, "eth0"), counted(&ratelimit, "eth1")), (Some((4.0, 96.0)), None));

    ratelimit.ok("attach eth1");
    assert!(is_on());
    send(&sandbox, 0, 8, 50);
    send(&sandbox, 1, 9, 30);
    // The interfaces share the limit of a source.
    send(&sandbox, 1, 7, 20);
    assert_eq!(counted(&ratelimit, "eth0"), Some((8.0, 142.0)));
    assert_eq!(counted(&ratelimit, "eth1"), Some((4.0, 46.0)));
    assert_eq!(all(&scrape(&ratelimit)), (12.0, 188.0));
    // `status` shows the sum.
    assert_eq!(ratelimit.json("status")["reasons"]["over-packets"]["packets"], 188);

    // The other interface is unchanged and continues its counters.
    ratelimit.ok("detach eth0");
    assert!(!is_on());
    send(&sandbox, 1, 10, 10);
    assert_eq!((counted(&ratelimit, "eth0"), counted(&ratelimit, "eth1")), (None, Some((8.0, 52.0))));
    assert_eq!(all(&scrape(&ratelimit)), (16.0, 194.0));

    ratelimit.ok("attach eth0 eth2");
    assert!(is_on());
    let running = program(&ratelimit, "");
    send(&sandbox, 0, 11, 5);
    send(&sandbox, 1, 12, 6);
    send(&sandbox, 2, 13, 7);
    assert_eq!(counted(&ratelimit, "eth0"), Some((12.0, 143.0)));
    assert_eq!(counted(&ratelimit, "eth1"), Some((12.0, 54.0)));
    assert_eq!(counted(&ratelimit, "eth2"), Some((4.0, 3.0)));
    // Two interfaces still count separately.
    ratelimit.ok("detach eth1");
    assert!(is_on() && program(&ratelimit, "") == running);
    ratelimit.ok("detach eth2");
    assert!(!is_on());
    send(&sandbox, 0, 14, 5);
    assert_eq!((counted(&ratelimit, "eth0"), counted(&ratelimit, "eth2")), (Some((16.0, 144.0)), None));

    // With no interface left, no counter is lost. The next one alone starts with its own.
    ratelimit.ok("detach eth0");
    ratelimit.ok("attach eth2");
    assert!(!is_on());
    send(&sandbox, 2, 15, 5);
    assert_eq!((counted(&ratelimit, "eth0"), counted(&ratelimit, "eth2")), (None, Some((8.0, 4.0))));
    ratelimit.ok("attach eth0 eth1");
    assert_eq!(counted(&ratelimit, "eth0"), Some((16.0, 144.0)));
    assert_eq!(counted(&ratelimit, "eth1"), Some((12.0, 54.0)));
    assert_eq!(counted(&ratelimit, "eth2"), Some((8.0, 4.0)));
    assert_eq!(all(&scrape(&ratelimit)), (36.0, 202.0));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn every_packet_is_counted_once_while_a_second_interface_changes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    add_interface(&sandbox, 1);
    let daemon = start(&sandbox, &ratelimit, &folder, FILE);
    let sum = |interface: &str, scrape: &BTreeMap<String, f64>| -> f64 {
        let begin = format!("ratelimit_interface_packets_total{{interface=\"{interface}\"");
        scrape.iter().filter(|(name, _)| name.starts_with(&begin)).map(|(_, packets)| packets).sum()
    };
    let flood = Flood::of(Frame::udp([10, 9, 0, 7], 9)).pace(20_000).start(&sandbox);
    let mut before = 0.0;
    let mut goes_on = || {
        let now = sum("eth0", &scrape(&ratelimit));
        assert!(now >= before, "{now} after {before}");
        before = now;
    };
    for round in 1..=5 {
        ratelimit.ok("attach eth1");
        goes_on();
        send(&sandbox, 1, 9, 100);
        assert_eq!(sum("eth1", &scrape(&ratelimit)), 100.0 * f64::from(round));
        goes_on();
        ratelimit.ok("detach eth1");
        goes_on();
    }
    let sent = flood.stop();
    assert_eq!(sum("eth0", &scrape(&ratelimit)), sent as f64);
    ratelimit.ok("attach eth1");
    let last = scrape(&ratelimit);
    assert_eq!((sum("eth0", &last), sum("eth1", &last)), (sent as f64, 500.0));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn deleted_and_refused_interfaces_do_not_change_other_counters() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    (1..=2).for_each(|number| add_interface(&sandbox, number));
    let daemon = start(&sandbox, &ratelimit, &folder, FILE);
    send(&sandbox, 0, 7, 10);
    // lo has no native XDP, so the attach fails.
    let before = (features(&sandbox), program(&ratelimit, ""));
    assert!(ratelimit.fails("attach eth1 lo").contains("lo"));
    assert_eq!((features(&sandbox), program(&ratelimit, "")), before);
    send(&sandbox, 0, 8, 10);
    assert_eq!((counted(&ratelimit, "eth0"), counted(&ratelimit, "eth1")), (Some((8.0, 12.0)), None));

    ratelimit.ok("attach eth1");
    send(&sandbox, 1, 9, 10);
    sandbox.ip("link delete eth1");
    send(&sandbox, 0, 10, 10);
    assert_eq!((counted(&ratelimit, "eth0"), counted(&ratelimit, "eth1")), (Some((12.0, 18.0)), None));
    // The next command finds that one interface is left.
    ratelimit.ok("attach eth0");
    assert_eq!(features(&sandbox) & FEATURE_INTERFACES, 0);
    send(&sandbox, 0, 11, 10);
    assert_eq!(counted(&ratelimit, "eth0"), Some((16.0, 24.0)));
    assert_eq!(all(&scrape(&ratelimit)), (20.0, 30.0));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_new_interface_reuses_the_slot_of_a_detached_one_only() {
    /// Four indices that hash to the same slot first, and two more.
    const INDICES: [u32; 6] = [64 + 40, 128 + 40, 192 + 40, 256 + 40, 320 + 40, 384 + 40];
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    for index in INDICES {
        sandbox.ip(&format!("link add eth{index} index {index} type veth peer name far{index}"));
        for link in [format!("eth{index}"), format!("far{index}")] {
            sandbox.ip(&format!("link set {link} addrgenmode none"));
            sandbox.ip(&format!("link set {link} up"));
        }
    }
    let daemon = start(&sandbox, &ratelimit, &folder, FILE);
    let name = |index: u32| format!("eth{index}");
    let five: Vec<_> = INDICES[..5].iter().map(|index| name(*index)).collect();
    ratelimit.ok(&format!("attach {}", five.join(" ")));
    for (host, index) in (20..).zip(&INDICES[..5]) {
        send(&sandbox, *index, host, 5 + usize::from(host));
    }
    for (dropped, name) in (21..).zip(&five[..4]) {
        assert_eq!(counted(&ratelimit, name), Some((4.0, f64::from(dropped))), "{name}");
    }
    // The fifth has no slot of its own and is not mixed with another one.
    assert_eq!(counted(&ratelimit, &five[4]), None);
    assert_eq!(counted(&ratelimit, "all others"), Some((4.0, 25.0)));
    let sum = all(&scrape(&ratelimit));

    ratelimit.ok(&format!("detach {}", five[1]));
    ratelimit.ok(&format!("attach {}", name(INDICES[5])));
    assert_eq!(all(&scrape(&ratelimit)), sum, "counters of removed interfaces remain");
    send(&sandbox, INDICES[4], 40, 5);
    send(&sandbox, INDICES[5], 41, 6);
    assert_eq!(all(&scrape(&ratelimit)), (sum.0 + 8.0, sum.1 + 3.0));
    assert_eq!(counted(&ratelimit, &five[0]), Some((4.0, 21.0)));
    // The interface that waited longest gets the free slot, and the next one gets none.
    let later = [counted(&ratelimit, &five[4]), counted(&ratelimit, "all others")];
    assert_eq!(later, [Some((4.0, 1.0)), Some((8.0, 27.0))]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn policies_are_shown_with_their_rules_and_sources() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let mut daemon = start(&sandbox, &ratelimit, &folder, &format!("{FILE}[settings]\nfront = false\n"));
    ratelimit.ok("limit set 10.5.0.0/16 --packets 2/s --burst 3");
    ratelimit.ok("limit set 10.6.0.0/16 --packets 2/s --burst 3");
    ratelimit.ok("deny add 10.7.0.0/16");
    Flood::of(Frame::udp([10, 5, 0, 7], 9)).sources(5).send(&sandbox, 500);
    Flood::of(Frame::udp([10, 5, 1, 7], 9)).send(&sandbox, 1);
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 3);
    let told = scrape(&ratelimit);
    let of = |policy: &str| {
        ["rules", "sources", "sources_exceeding"]
            .map(|name| told.get(&format!("ratelimit_policy_{name}{{policy=\"{policy}\"}}")).copied())
    };
    let limit = "limit";
    assert_eq!(of(limit), [Some(2.0), Some(6.0), Some(5.0)]);
    assert_eq!(of("default"), [Some(1.0), Some(1.0), Some(0.0)]);
    assert_eq!(told["ratelimit_policy_packets_per_second{policy=\"default\"}"], 10.0 / 3_600.0);
    assert_eq!(of("deny"), [Some(1.0), Some(0.0), Some(0.0)]);
    assert_eq!(told["ratelimit_policies_left_out"], 0.0);

    // An edit of a limit changes no label.
    let labels = || -> BTreeSet<String> {
        let all = scrape(&ratelimit).into_keys();
        all.filter(|name| name.starts_with("ratelimit_policy_")).collect()
    };
    let before = labels();
    ratelimit.ok("limit set 10.5.0.0/16 --packets 3/s");
    ratelimit.ok("limit set default --packets 20/h");
    assert_eq!(labels(), before);

    let rule = |number: u32| {
        let policy = format!("[policy.p{number}]\npackets = \"{}/s\"\n", number + 100);
        format!("{policy}[[rule]]\nsource = \"10.10.{number}.0/24\"\npolicy = \"p{number}\"\n")
    };
    folder.write(&format!("{FILE}[settings]\nfront = false\n{}", (0..110).map(rule).collect::<String>()));
    daemon.line();
    let told = scrape(&ratelimit);
    let series = told.keys().filter(|name| name.starts_with("ratelimit_policy_rules")).count();
    assert_eq!((series, told["ratelimit_policies_left_out"]), (100, 13.0));
    assert_eq!(told[&format!("ratelimit_policy_sources_exceeding{{policy=\"{limit}\"}}")], 5.0);
    daemon.end();
    ratelimit.ok("detach --all");
}
