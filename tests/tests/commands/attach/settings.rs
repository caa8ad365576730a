//! Options about the program: invalid values, and values that persist.

use std::net::Ipv6Addr;

use aya::maps::{Array, Map, MapData};
use ratelimit_common::maps::control::Control;
use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::{Value, json};

#[test]
fn invalid_settings_are_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let per_second = "expected a rate between 1/s and 100M/s";
    for (words, expected) in [
        ("attach eth0 --cells 3", "'3' for '--cells <N>': expected a power of two up to 1048576"),
        ("attach eth0 --cells 0", "expected a power of two up to 1048576"),
        ("attach eth0 --cells 2097152", "expected a power of two up to 1048576"),
        ("attach eth0 --cells 8 --front off", "cannot be used with"),
        ("attach eth0 --unknown 0/s", per_second),
        ("attach eth0 --unknown 1/h", per_second),
        ("attach eth0 --unknown some", "expected a rate between 1/s and 100M/s, auto, or off"),
        ("attach eth0 --unknown 10k", "expected packets per s, m, h or d"),
        ("attach eth0 --own auto", "expected packets per s, m, h or d"),
        ("attach eth0 --front off --unknown 1k/s", "--unknown needs cells, which --front off removes"),
        ("attach eth0 --prove udp", "invalid value 'udp' for '--prove"),
        ("attach eth0 --prove tcp", "no limit: add --unknown RATE"),
        ("attach eth0 --prove tcp --unknown 1k/s", "`sysctl -w net.ipv4.tcp_syncookies=2`"),
        ("attach eth0 --proofs 0/s", per_second),
        ("attach eth0 --own 0/s", per_second),
        ("attach eth0 --own some", "expected packets per s, m, h or d"),
        ("attach eth0 --replies 0/s", per_second),
        ("attach eth0 --replies 1/h", per_second),
        ("attach eth0 --replies some", "expected packets per s, m, h or d"),
        ("attach eth0 --admissions 0/s", per_second),
        ("attach eth0 --admissions 1/m", per_second),
        ("attach eth0 --sample some", "invalid value 'some' for '--sample"),
        ("attach eth0 --front some", "invalid value 'some' for '--front"),
        ("attach eth0 --max-sources 0", "0 is not in 1..=16777216"),
    ] {
        let line = ratelimit.fails(words);
        assert!(line.contains(expected), "{words}: {line}");
    }
    assert!(sandbox.pins().is_empty());
}

#[test]
fn proofs_are_set_saved_watched_and_kept_by_other_changes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let syn_cookies = |value: &str| sandbox.set_syn_cookies(value);
    syn_cookies("2");
    let text = ratelimit.ok("attach eth0 --unknown 1k/s --prove tcp --proofs 5k/s");
    assert!(
        text.contains(
            "proof of addresses: SYN cookies over the rate of unknown sources
"
        ),
        "{text}"
    );
    ratelimit.ok("set --sample off");
    let cookies = || ratelimit.json("status")["unknown"]["proofs"]["cookies"].clone();
    assert_eq!(cookies(), json!({"per_second": 5_000, "sent": 0, "unsent": 0}));
    let saved = ratelimit.ok("save");
    assert!(saved.contains("\nprove = \"tcp\"\nproofs = \"5000/s\"\n"), "{saved}");
    assert!(ratelimit.ok("status -v").contains("\nSYN cookies: 5000/s in total; 0 sent, 0 not sent\n"));
    // The setting of the kernel may change later. What runs stays, and other changes are possible.
    let doctor = || ratelimit.run("doctor").stdout;
    assert!(doctor().contains("proofs: by established connections, and by up to 5000/s SYN cookies"), "{}", doctor());
    syn_cookies("1");
    assert!(doctor().contains("fix: sysctl -w net.ipv4.tcp_syncookies=2\n"), "{}", doctor());
    ratelimit.ok("set --unknown 2k/s");
    assert_eq!(cookies()["per_second"], 5_000);
    ratelimit.ok("set --prove off");
    assert_eq!(cookies(), Value::Null);
    assert!(ratelimit.fails("set --prove tcp").contains("and it is 1: "));
    ratelimit.ok("detach --all");
}

#[test]
fn the_rate_of_own_connections_is_set_saved_and_kept_by_other_changes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --own 5k/s");
    assert!(text.contains("own connections: spared up to 5000/s from each source\n"), "{text}");
    ratelimit.ok("set --sample off");
    assert_eq!(ratelimit.json("status")["own"]["per_second"], 5_000);
    assert!(ratelimit.ok("save").contains("\nown = \"5000/s\"\n"));
    let text = ratelimit.ok("set --own off");
    assert!(text.contains("own connections: limited like all others\n"), "{text}");
    assert_eq!(ratelimit.json("status")["own"], Value::Null);
    let saved = ratelimit.ok("save");
    assert!(saved.contains("\nown = \"off\"\n"), "{saved}");
    ratelimit.ok("detach --all");
    // A new instance spares them.
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.json("status")["own"]["per_second"], 1_000_000);
    ratelimit.ok("detach --all");
}

#[test]
fn bans_cover_ipv6_sources_of_any_length() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --ipv6-prefix 24 --packets 1/h --burst 1 --ban 10m");
    let address: Ipv6Addr = "2001:db8::66".parse().unwrap();
    Flood::of(Frame::udp(address, 9)).send(&sandbox, 10);
    let bans = ratelimit.json("deny list");
    assert_eq!((&bans[0]["source"], &bans[0]["origin"]), (&json!("2001:d00::/24"), &json!("ban")), "{bans}");
    assert_eq!(ratelimit.ok("deny del 2001:d00::/24"), "2001:d00::/24: no longer banned\n");
    assert_eq!(ratelimit.json("deny list"), json!([]));
    ratelimit.ok("detach --all");
}

#[test]
fn sizes_of_a_running_instance_can_change_but_front_cannot() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --cells 1024 --max-sources 100");
    let sizes = || {
        let status = ratelimit.json("status");
        [status["front"]["cells"].as_u64().unwrap(), status["sources"]["max"].as_u64().unwrap()]
    };
    assert_eq!(sizes(), [1_024, 100]);
    let line = ratelimit.fails("attach eth0 --front off");
    assert!(line.contains("has cells, not none (--front off): `ratelimit detach --all`"), "{line}");
    for (words, expected) in [
        ("--cells 4096", [4_096, 100]),
        ("--max-sources 300", [4_096, 300]),
        ("--cells 2 --max-sources 7", [2, 7]),
        ("--front on", [131_072, 7]),
    ] {
        ratelimit.ok(&format!("attach eth0 {words}"));
        assert_eq!(sizes(), expected, "{words}");
    }
    ratelimit.ok("detach --all");

    ratelimit.ok("attach eth0 --front off");
    let line = ratelimit.fails("attach eth0 --unknown 1k/s");
    assert!(line.contains("the running instance has no cells, which --unknown needs"), "{line}");
    assert_eq!(ratelimit.json("status")["unknown"], json!(null));
    ratelimit.ok("detach --all");
}

/// The sandbox tells how much memory there is.
#[test]
fn a_new_instance_is_sized_for_the_machine_and_keeps_its_sizes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let sizes = || {
        let status = ratelimit.json("status");
        [status["sources"]["max"].as_u64().unwrap(), status["front"]["cells"].as_u64().unwrap()]
    };
    let told = |words: &str| {
        let text = ratelimit.ok(words);
        text.lines().find(|line| line.starts_with("buckets: ")).map(str::to_owned)
    };
    assert_eq!(told("attach eth0").as_deref(), Some("buckets: 131072, for the memory of this machine"));
    assert_eq!(sizes(), [131_072, 131_072]);
    ratelimit.ok("detach --all");
    sandbox.victim_namespace().set_memory(2_000_000);
    assert_eq!(told("attach eth0").as_deref(), Some("buckets: 262144, for the memory of this machine"));
    assert_eq!(sizes(), [262_144, 131_072]);
    let saved = ratelimit.ok("save");
    assert!(saved.contains("\nmax-sources = 262144\n") && saved.contains("\ncells = 131072\n"), "{saved}");
    // With more memory, later commands that load another program resize nothing.
    sandbox.victim_namespace().set_memory(4_000_000);
    for words in ["attach eth0 --sample off", "set --replies 9/s", "limit set 10.0.0.0/8 --packets 5/s", "upgrade"] {
        assert_eq!(told(words), None, "{words}");
        assert_eq!(sizes(), [262_144, 131_072], "{words}");
    }
    ratelimit.ok("detach --all");

    // What the operator gives holds.
    assert_eq!(told("attach eth0 --max-sources 5000").as_deref(), Some("buckets: 5000"));
    assert_eq!(sizes(), [5_000, 131_072]);
    ratelimit.ok("detach --all");
    assert_eq!(told("attach eth0 --max-sources 5000 --cells 1024").as_deref(), Some("buckets: 5000"));
    assert_eq!(sizes(), [5_000, 1_024]);
    ratelimit.ok("detach --all");
}

/// Returns the settings that a running instance can change.
fn settings(ratelimit: &Ratelimit<'_>) -> [Value; 4] {
    let status = ratelimit.json("status");
    let replies = &status["replies"]["per_second"];
    [&status["unknown"]["per_second"], &status["sample"], &status["admission"]["per_second_and_cpu"], replies]
        .map(Value::clone)
}

#[test]
fn attach_names_the_default_limit_that_it_replaces() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 5/s --parent all=1k/s");
    let text = ratelimit.ok("attach eth0 --packets 6/s");
    assert!(
        text.contains("\ndefault: 6/s per source, burst 6; parents all=1000/s (replaced: 5/s, all=1000/s)\n"),
        "{text}"
    );
    for words in ["attach eth0 --packets 6/s", "attach eth0"] {
        let text = ratelimit.ok(words);
        assert!(text.ends_with("\ndefault: 6/s per source, burst 6; parents all=1000/s\n"), "{words}: {text}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn changed_settings_apply_at_once_and_persist() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    assert_eq!(settings(&ratelimit), [json!(null), json!(true), json!(10_000), json!(100)]);
    let text = ratelimit.ok("attach eth0 --unknown 5k/s --sample off");
    assert!(text.ends_with("\nunknown sources: 5000/s in total\nsamples: off\n"), "{text}");
    assert_eq!(settings(&ratelimit), [json!(5_000), json!(false), json!(10_000), json!(100)]);
    ratelimit.ok("attach eth0 --admissions 60/m");
    assert_eq!(settings(&ratelimit), [json!(5_000), json!(false), json!(1), json!(100)]);
    ratelimit.ok("attach eth0 --unknown off --sample on");
    assert_eq!(settings(&ratelimit), [json!(null), json!(true), json!(1), json!(100)]);
    let text = ratelimit.ok("attach eth0 --replies 5/s");
    assert!(text.ends_with("\nanswers to rejected packets: 5/s in total\n"), "{text}");
    assert_eq!(settings(&ratelimit)[3], 5);
    let text = ratelimit.ok("attach eth0 --replies off");
    assert!(text.ends_with("\nanswers to rejected packets: none\n"), "{text}");
    ratelimit.ok("attach eth0");
    assert_eq!(settings(&ratelimit)[3], 0);
    ratelimit.ok("detach --all");

    let listed = || ratelimit.json("sources").as_array().unwrap().len();
    ratelimit.ok("attach eth0 --sample off");
    Flood::of(Frame::udp([10, 9, 0, 1], 9)).send(&sandbox, 100);
    assert_eq!(listed(), 0);
    ratelimit.ok("attach eth0 --sample on");
    Flood::of(Frame::udp([10, 9, 0, 1], 9)).send(&sandbox, 100);
    assert_eq!(listed(), 1);
    ratelimit.ok("attach eth0 --unknown 1/s");
    Flood::of(Frame::udp([10, 8, 0, 0], 9)).sources(1_000).send(&sandbox, 1_000);
    let refused = ratelimit.json("status")["reasons"]["over-unknown"]["packets"].as_u64().unwrap();
    assert!(refused > 900, "{refused}");
    ratelimit.ok("detach --all");
}

#[test]
fn a_rule_that_replaces_the_program_keeps_settings_and_seed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit
        .ok("attach eth0 --cells 4096 --unknown 3k/s --sample off --admissions 77/s --replies 9/s --malformed pass");
    let control = || -> Control {
        sandbox.victim(|| {
            let data = MapData::from_pin("/sys/fs/bpf/ratelimit/CONTROL").unwrap();
            Array::<_, Control>::try_from(Map::Array(data)).unwrap().get(&0, 0).unwrap()
        })
    };
    let program = || ratelimit.json("status")["interfaces"][0]["program_id"].clone();
    let (before, mut running) = (control(), program());
    assert_ne!(before.seed, [0; 4]);
    for words in [
        "limit set default --service udp/53 --packets 5/s",
        "limit set 10.0.0.0/8 --packets 5/s --parent all=10/s",
        "limit del default --service udp/53",
        "limit del 10.0.0.0/8",
    ] {
        ratelimit.ok(words);
        assert_ne!(program(), running, "{words}");
        running = program();
        assert_eq!(settings(&ratelimit), [json!(3_000), json!(false), json!(77), json!(9)], "{words}");
        let status = ratelimit.json("status");
        assert_eq!((&status["front"]["cells"], &status["malformed"]), (&json!(4_096), &json!("pass")), "{words}");
        let after = control();
        assert_eq!((after.seed, after.tick, after.tick_zero), (before.seed, before.tick, before.tick_zero), "{words}");
        assert_eq!(
            (after.unknown, after.admission, after.replies, after.created),
            (before.unknown, before.admission, before.replies, before.created)
        );
    }
    assert_eq!(control().features, before.features);
    ratelimit.ok("detach --all");
}
