//! Lists from real sets of nftables and ipset.

use std::{env, path::Path, process::Command};

use ratelimit_tests::{Ratelimit, Sandbox, unpacked};
use serde_json::json;

/// Runs a program with these words in the sandbox.
fn ok(sandbox: &Sandbox, command: &mut Command, words: &[&str]) {
    let output = sandbox.output(command.args(words));
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[test]
fn sets_of_nftables_become_lists() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let rules = "table inet f {
        set bad { type ipv4_addr; flags interval, timeout
            elements = { 11.0.0.0/8, 192.0.2.1-192.0.2.3 timeout 1h, 198.51.100.7 comment \"x y\", 203.0.113.9 comment \"z\" }; };
        set six { type ipv6_addr; elements = { 2001:db8::1 }; };
        set ports { type ipv4_addr . inet_service; };
        set open { type inet_service; flags interval; elements = { 22, 80-90 }; };
        set both { type ipv4_addr . inet_service; flags interval; elements = { 192.0.2.0/24 . 80-90 }; };
        set marks { type mark; elements = { 0x5 }; };
        set none { type ipv4_addr; }; }; \
        table ip g { set bad { type ipv4_addr; }; }";
    ok(&sandbox, &mut Command::new("nft"), &[rules]);
    let mut command = ratelimit.command("list import nft bad --name feed --for 1d");
    let output = ratelimit.output(command.args(["--table", "inet f"]));
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    assert!(
        output.stdout.starts_with(
            "feed: deny, 5 entries, ends in 1d\n  1 entry ends by itself in the set, but stays in the list until the list ends\n"
        ),
        "{output:?}"
    );
    let entries = ratelimit.ok("list show feed --entries");
    let mut lines: Vec<_> = entries.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["11.0.0.0/8", "192.0.2.1", "192.0.2.2/31", "198.51.100.7", "203.0.113.9"]);
    ratelimit.ok("list import nft six --packets 5/s");
    assert_eq!(ratelimit.json("list list")[1]["name"], json!("six"));
    for (set, why) in [
        ("bad", "several tables have a set bad: give --table \"inet f\" or --table \"ip g\""),
        ("ports", "a list takes sets of addresses"),
        ("both", "a list takes sets of addresses"),
        ("marks", "a list takes sets of addresses"),
        ("none", "ratelimit: the set none has no address: nothing was changed"),
        ("missing", "nftables has no set missing, but bad in \"inet f\""),
    ] {
        let line = ratelimit.fails(&format!("list import nft {set}"));
        assert!(line.contains(why), "{line}");
    }
    assert_eq!(ratelimit.json("list list").as_array().unwrap().len(), 2);
    ratelimit.ok("detach --all");
}

#[test]
fn sets_of_ipset_become_lists() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let ipset = || unpacked::program("ipset", "ipset", "--version");
    for words in [
        "create bad hash:net timeout 0",
        "add bad 11.0.0.0/8",
        "add bad 172.16.0.0/12",
        "add bad 192.0.2.1 timeout 900",
        "create p hash:ip,port",
        "create lines hash:ip netmask 24",
        "add lines 203.0.113.7",
        "add lines 198.51.100.9",
        "create six56 hash:ip family inet6 netmask 56",
        "add six56 2001:db8:7:700::1",
        "create parts bitmap:ip range 192.0.2.0/24 netmask 28",
        "add parts 192.0.2.33",
        "create noted hash:net comment",
        "create other hash:net",
        "add other 203.0.113.0/24",
        "add other 203.0.113.7 nomatch",
    ] {
        ok(&sandbox, &mut ipset(), &words.split(' ').collect::<Vec<_>>());
    }
    for (entry, comment) in [
        ("203.0.113.0/24", "from zone with nomatch entries"),
        ("198.51.100.0/24", "old timeout 5 note"),
        ("192.0.2.1", "two\nadd noted 10.0.0.0/8\nlines"),
    ] {
        ok(&sandbox, &mut ipset(), &["add", "noted", entry, "comment", comment]);
    }
    let import = |words: &str| {
        let ipset = ipset();
        let folder = Path::new(ipset.get_program()).parent().unwrap().to_owned();
        let others = env::var_os("PATH").unwrap();
        let path = env::join_paths([folder].into_iter().chain(env::split_paths(&others))).unwrap();
        let mut command = ratelimit.command(words);
        command.env("PATH", path).envs(ipset.get_envs().filter_map(|(name, value)| Some((name, value?))));
        ratelimit.output(&mut command)
    };
    let output = import("list import ipset bad");
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    let expected = "bad: deny, 3 entries\n  1 entry ends by itself in the set, but stays in the list\n";
    assert!(output.stdout.starts_with(expected), "{output:?}");
    ok(&sandbox, &mut ipset(), &["add", "bad", "192.0.2.2", "timeout", "900"]);
    let output = import("list import ipset bad");
    assert!(output.stdout.contains("\n  2 entries end by themselves in the set, but stay in the list\n"), "{output:?}");
    for (set, expected) in [
        ("lines", "198.51.100.0/24 203.0.113.0/24"),
        ("six56", "2001:db8:7:700::/56"),
        ("parts", "192.0.2.32/28"),
        ("noted", "192.0.2.1 198.51.100.0/24 203.0.113.0/24"),
    ] {
        let output = import(&format!("list import ipset {set}"));
        assert_eq!((output.status, output.stderr.as_str()), (0, ""));
        assert_eq!(output.stdout.lines().count(), 1, "none of them ends: {output:?}");
        let entries = ratelimit.ok(&format!("list show {set} --entries"));
        let mut entries: Vec<_> = entries.lines().collect();
        entries.sort_unstable();
        assert_eq!(entries.join(" "), expected, "{set}");
    }
    ok(&sandbox, &mut ipset(), &["flush", "bad"]);
    let output = import("list import ipset bad");
    let expected = "the set bad has no address: nothing was changed, `ratelimit list del bad` deletes the list\n";
    assert!(output.status == 2 && output.stderr.ends_with(expected), "{output:?}");
    for (set, why) in [
        ("p", "p has the type hash:ip,port"),
        ("missing", "ipset: "),
        ("other", "other: 203.0.113.7 has `nomatch`, which a list cannot have"),
    ] {
        let output = import(&format!("list import ipset {set}"));
        assert_eq!(output.status, 2);
        assert!(output.stderr.contains(why), "{output:?}");
    }
    let mut command = ratelimit.command("list import ipset bad");
    let output = ratelimit.output(command.env("PATH", "/nowhere"));
    assert!(output.stderr.contains("there is no program ipset: install ipset"), "{output:?}");
    ratelimit.ok("detach --all");
}
