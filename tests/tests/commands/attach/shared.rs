//! What all interfaces share: `attach` does not change it for interfaces that it does not name, and `set` does.

use ratelimit_tests::{Flood, Frame, PEER_IPV4, Ratelimit, Sandbox};
use serde_json::json;

#[test]
fn attach_refuses_to_change_what_other_interfaces_share() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.add_link("eth1", "far1");
    ratelimit.ok("attach eth0 --packets 10/d");
    let status = ratelimit.json("status");
    for (words, setting) in [
        ("--unknown 5k/s", "unknown"),
        ("--sample off", "sample"),
        ("--admissions 5/s", "admissions"),
        ("--replies off", "replies"),
        ("--malformed pass", "malformed"),
        ("--cells 4096", "cells"),
        ("--max-sources 100", "max-sources"),
    ] {
        let line = ratelimit.fails(&format!("attach eth1 {words}"));
        let expected = format!(
            "ratelimit: --{setting} would also change eth0: `ratelimit set --{setting} …` changes it for all interfaces"
        );
        assert_eq!(line, expected);
    }
    let line = ratelimit.fails("attach eth1 --packets 11/d");
    let expected = "ratelimit: the default limit would also change on eth0: `ratelimit limit set default …` changes it for all interfaces";
    assert_eq!(line, expected);
    assert_eq!(ratelimit.json("status")["interfaces"], status["interfaces"]);
    // The refused attach has not stopped the enforcement on eth0.
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 90);

    ratelimit.ok("attach eth1 --shadow");
    let shadow = || ratelimit.json("status")["interfaces"][1]["shadow"].clone();
    assert_eq!(shadow(), true);
    ratelimit.ok("attach eth1 --shadow=off");
    assert!(shadow().is_null());
    let line = ratelimit.fails("attach eth1 --shadow");
    assert!(line.ends_with("changes it for all interfaces, and with --interface for one"), "{line}");
    // What is in force already changes nothing.
    ratelimit.ok("attach eth1 --packets 10/d --shadow=off --sample on");
    // Whoever names all interfaces means all.
    ratelimit.ok("attach eth0 eth1 --packets 20/d --shadow");
    assert_eq!(ratelimit.json("status")["shadow"]["everything"], true);
    ratelimit.ok("detach eth1");
    ratelimit.ok("attach eth0 --shadow=off");
    ratelimit.ok("detach --all");
}

#[test]
fn sources_counts_every_packet_of_an_interface_that_alone_is_in_shadow() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.add_link("eth1", "far1");
    ratelimit.ok("attach eth0 eth1");
    ratelimit.ok("set --interface eth0 --shadow on");
    ratelimit.ok("deny add 10.9.0.66");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 500);
    let sources = ratelimit.json("sources");
    assert_eq!(sources[0]["would_drop"]["packets"], 500, "{sources}");
    assert_eq!(sources[0]["dropped"]["packets"], 0, "{sources}");
    ratelimit.ok("detach --all");
}

#[test]
fn set_changes_what_is_given_for_all_interfaces_and_keeps_the_rest() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.add_link("eth1", "far1");
    assert!(ratelimit.fails("set --shadow on").contains("is not attached"));
    ratelimit.ok("attach eth0 eth1 --packets 10/d --admissions 77/s");
    let lines = "shadow mode: every packet passes, and drops are only counted\nunknown sources: 5000/s in total\n";
    assert_eq!(ratelimit.ok("set --shadow on --unknown 5k/s"), lines);
    let status = ratelimit.json("status");
    let read = |status: &serde_json::Value| {
        [&status["shadow"]["everything"], &status["unknown"]["per_second"], &status["admission"]["per_second_and_cpu"]]
            .map(Clone::clone)
    };
    assert_eq!(read(&status), [json!(true), json!(5_000), json!(77)]);
    assert_eq!(ratelimit.json("set --shadow=on"), json!({"changed": []}));
    let text = ratelimit.ok("set --shadow on");
    assert!(text.ends_with("\nnothing has changed: this was in force already\n"), "{text}");
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 0);

    assert_eq!(ratelimit.json("set --shadow off --unknown off"), json!({"changed": ["unknown", "shadow"]}));
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 100);
    ratelimit.ok("detach --all");
}

#[test]
fn invalid_sets_are_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for (words, expected) in [
        ("set", "no setting is given: `ratelimit help set` lists them"),
        ("set --shadow some", "invalid value 'some' for '--shadow"),
        ("set --unknown 0/s", "expected a rate between 1/s and 100M/s"),
        ("set --ipv6-prefix 48", "the running instance has"),
        ("set --front off", "has cells, not none (--front off): `ratelimit detach --all`"),
        ("set eth0 --shadow on", "unexpected argument 'eth0'"),
    ] {
        let line = ratelimit.fails(words);
        assert!(line.contains(expected), "{words}: {line}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_set_that_ends_shadow_mode_over_an_ssh_session_that_rules_deny_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --shadow");
    ratelimit.ok("deny add 10.9.0.77");
    let set = |words: &str| {
        let mut command = ratelimit.command(words);
        ratelimit.output(command.env("SSH_CONNECTION", "10.9.0.77 50000 10.9.0.1 22"))
    };
    let refused = set("set --shadow off");
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("10.9.0.77"), "{refused:?}");
    assert_eq!(ratelimit.json("status")["shadow"]["everything"], true);
    assert_eq!(set("set --shadow off --force").status, 0);
    assert_eq!(ratelimit.json("status")["shadow"]["everything"], false);
    ratelimit.ok("detach --all");
}
