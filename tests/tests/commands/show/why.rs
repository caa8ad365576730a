//! `ratelimit why`: its answers agree with what happens to packets.

use std::time::Duration;

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, stdin, wait_until};
use serde_json::{Value, json};

/// Returns the kind, name and service of what decides, and of what is outranked.
fn causes(answer: &Value) -> Vec<String> {
    let outranked = answer["outranked"].as_array().unwrap();
    let text = |cause: &Value| {
        let [kind, name, service] = ["kind", "name", "service"].map(|key| cause[key].as_str().unwrap());
        format!("{kind} {name} {service}")
    };
    [&answer["decides"]].into_iter().filter(|cause| !cause.is_null()).chain(outranked).map(text).collect()
}

#[test]
fn what_decides_about_an_address_is_what_its_packets_meet() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let why = |words: &str| ratelimit.json(&format!("why {words}"));
    assert_eq!(causes(&why("10.9.0.5")), [""; 0]);
    assert_eq!(why("10.9.0.5")["verdict"], "pass");
    for words in [
        "limit set default --packets 1/h --burst 5",
        "limit set 10.8.0.0/16 --packets 1/h --burst 3 --comment office",
        "limit set 10.8.0.0/24 --service udp/53 --packets 1/h --burst 2",
        "deny add 10.8.0.7 --for 1h",
        "allow add 10.7.1.0/24",
    ] {
        ratelimit.ok(words);
    }
    let list = |words: &str, text: &str| {
        let mut command = ratelimit.command(words);
        assert_eq!(ratelimit.output(command.stdin(stdin(text))).status, 0);
    };
    list("list set spam -", "10.7.0.0/16\n10.8.0.8\n");
    list("list set slow - --packets 1/h --burst 4", "10.6.0.0/16\n10.8.0.0/16\n");
    list("list set slower - --packets 1/h --burst 4", "10.6.0.0/16\n");
    let (default, office) = ("default default any", "rule 10.8.0.0/16 any");
    for (address, port, verdict, passing, expected) in [
        ([10, 9, 0, 5], 9, "limit", 5, &[default][..]),
        ([10, 8, 0, 5], 9, "limit", 3, &[office, "list slow any", default]),
        ([10, 8, 0, 6], 53, "limit", 2, &["rule 10.8.0.0/24 udp/53", "list slow any", office, default]),
        ([10, 8, 0, 7], 9, "drop", 0, &["rule 10.8.0.7 any", "list slow any", office, default]),
        ([10, 8, 0, 8], 9, "drop", 0, &["list spam any", "list slow any", office, default]),
        ([10, 7, 0, 5], 9, "drop", 0, &["list spam any", default]),
        ([10, 7, 1, 5], 9, "pass", 10, &["rule 10.7.1.0/24 any", "list spam any", default]),
        ([10, 6, 0, 5], 9, "limit", 4, &["list slow any", "list slower any", default]),
    ] {
        let name = address.map(|byte: u8| byte.to_string()).join(".");
        let words = if port == 53 { format!("{name} --service udp/53") } else { name.clone() };
        let answer = why(&words);
        assert_eq!(
            (answer["verdict"].as_str().unwrap(), causes(&answer)),
            (verdict, expected.iter().map(|cause| (*cause).to_owned()).collect()),
            "{words}"
        );
        assert_eq!(answer["refused_now"], verdict == "drop", "{words}");
        let dropped = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
        let before = dropped();
        Flood::of(Frame::udp(address, port)).send(&sandbox, 10);
        assert_eq!(dropped() - before, 10 - passing, "{words}");
        let answer = why(&words);
        assert_eq!(answer["refused_now"], verdict != "pass", "{words}");
        assert_eq!(answer["dropped"]["packets"], 10 - passing, "{words}");
    }
    assert_eq!(why("10.8.0.9")["services"], json!(["udp/53"]));
    assert_eq!(why("10.8.0.9")["decides"]["comment"], "office");
    let text = ratelimit.ok("why 10.8.0.7");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "10.8.0.7: dropped");
    assert!(lines[1].starts_with("decides:   rule for 10.8.0.7: deny, set by command, expires in 59m"), "{text}");
    assert_eq!(lines[3], "outranks:  rule for 10.8.0.0/16: 1/h per source, burst 3, set by command # office");
    ratelimit.ok("set --shadow on");
    assert_eq!(
        ratelimit.ok("why 10.8.0.7").lines().next(),
        Some("10.8.0.7: dropped (in shadow, so every packet passes)")
    );
    ratelimit.ok("detach --all");
}

#[test]
fn bans_and_ipv6_sources_are_told() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --ban 10m");
    Flood::of(Frame::udp([10, 9, 0, 5], 9)).send(&sandbox, 10);
    let answer = ratelimit.json("why 10.9.0.5");
    assert_eq!(causes(&answer), ["ban 10.9.0.5 any", "default default any"]);
    assert!((590..=600).contains(&answer["decides"]["expires_in_seconds"].as_u64().unwrap()), "{answer}");
    ratelimit.ok("allow add 10.9.0.5");
    assert_eq!(causes(&ratelimit.json("why 10.9.0.5"))[0], "rule 10.9.0.5 any");
    // A part of an IPv6 source with a rule is a source of its own.
    ratelimit.ok("limit set 2001:db8::/80 --packets 7/s");
    for (address, source, decides) in [
        ("2001:db8::1", "2001:db8::/80", "rule 2001:db8::/80 any"),
        ("2001:db8:0:0:1::1", "2001:db8::/64", "default default any"),
        ("::ffff:10.9.0.5", "10.9.0.5", "rule 10.9.0.5 any"),
    ] {
        let answer = ratelimit.json(&format!("why {address}"));
        assert_eq!((answer["source"].as_str(), causes(&answer)[0].as_str()), (Some(source), decides), "{address}");
    }
    assert!(ratelimit.fails("why 10.0.0.0/8").contains("10.0.0.0/8 has many sources: name an address"));
    ratelimit.ok("detach --all");
    assert!(ratelimit.fails("why 10.9.0.5").contains("not attached"), "an answer without an instance");
}

#[test]
fn the_bucket_the_cell_and_the_times_of_a_source_are_told() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 6 --front off");
    let unknown = ratelimit.json("why 10.9.0.5");
    for field in ["bucket", "refused_for_seconds", "first_seen_at", "last_seen_at"] {
        assert!(unknown[field].is_null(), "{unknown}");
    }
    Flood::of(Frame::udp([10, 9, 0, 5], 9)).send(&sandbox, 4);
    let answer = ratelimit.json("why 10.9.0.5");
    let bucket = &answer["bucket"];
    assert_eq!((&bucket["used_packets"], &bucket["burst"]), (&json!(4), &json!(6)), "{answer}");
    assert!((4 * 3_600 - 300..=4 * 3_600).contains(&bucket["full_in_seconds"].as_u64().unwrap()), "{answer}");
    let text = ratelimit.ok("why 10.9.0.5");
    assert!(text.contains("bucket:    4 of 6 packets used, full again in "), "{text}");
    assert!(text.contains("seen:      first <70s ago, last now"), "{text}");
    ratelimit.ok("detach --all");

    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.7");
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 4);
    let answer = ratelimit.json("why 10.9.0.7");
    assert!((1..=64).contains(&answer["refused_for_seconds"].as_u64().unwrap()), "{answer}");
    assert_eq!((&answer["refused_now"], &answer["bucket"]), (&json!(true), &json!(null)), "{answer}");
    ratelimit.ok("detach --all");
}

/// A cell counts a part of what a source has used.
#[test]
fn the_next_packet_meets_what_was_told() {
    for words in [
        "",
        "--front off",
        "--algorithm leaky-bucket",
        "--algorithm fixed-window",
        "--algorithm sliding-window",
        "--algorithm sliding-log",
    ] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        let burst = if words.ends_with("window") || words.ends_with("log") { "" } else { "--burst 6" };
        ratelimit.ok(&format!("attach eth0 --packets 6/d {burst} {words}"));
        // A rule of its own has other levels than the default.
        ratelimit.ok(&format!("limit set 10.9.0.7 --packets 6/d {burst} {}", words.replace("--front off", "")));
        for source in [[10, 9, 0, 5], [10, 9, 0, 7]] {
            let name = source.map(|byte: u8| byte.to_string()).join(".");
            let dropped = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
            for sent in 0..8u64 {
                let answer = ratelimit.json(&format!("why {name}"));
                let (used, refused) = (sent.min(6), sent >= 6);
                let told = (answer["bucket"]["used_packets"].as_u64().unwrap_or(0), &answer["refused_now"]);
                assert_eq!(told, (used, &refused.into()), "{words} {name} {sent}: {answer}");
                let waits = answer["refused_for_seconds"].as_u64();
                assert_eq!(waits.is_some_and(|seconds| seconds > 60), refused, "{words} {name} {sent}: {answer}");
                let before = dropped();
                Flood::of(Frame::udp(source, 9)).send(&sandbox, 1);
                assert_eq!(dropped() - before, u64::from(refused), "{words} {name} {sent}");
            }
            let text = ratelimit.ok(&format!("why {name}"));
            assert!(text.contains("over its limit, so packets are dropped\n"), "{text}");
            assert!(text.contains("\nbucket:    6 of 6 packets used, ") && text.contains("\nnext:      "), "{text}");
        }
        ratelimit.ok("detach --all");
    }
}

/// A wider limit and the limit of unknown sources can refuse it for longer, and in shadow it passes.
#[test]
fn the_next_packet_is_told_only_where_the_own_limit_alone_decides() {
    for (words, is_told, is_in_shadow) in [
        ("", true, false),
        ("--parent /24=100k/s", false, false),
        ("--unknown 100k/s", false, false),
        ("--shadow", false, true),
        ("--over-limit shadow", false, true),
    ] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok(&format!("attach eth0 --packets 1/h --burst 2 {words}"));
        Flood::of(Frame::udp([10, 9, 0, 5], 9)).send(&sandbox, 5);
        let answer = ratelimit.json("why 10.9.0.5");
        assert_eq!(answer["refused_for_seconds"].is_null(), is_in_shadow, "{words}: {answer}");
        let text = ratelimit.ok("why 10.9.0.5");
        assert_eq!(text.contains("\nnext:      "), is_told, "{words}: {text}");
        ratelimit.ok("detach --all");
    }
}

#[test]
fn rules_of_services_and_the_limit_of_unknown_sources_are_told() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 100/s");
    let first = |words: &str| ratelimit.ok(words).lines().next().unwrap().to_owned();
    assert_eq!(first("why 10.9.0.5"), "10.9.0.5: passes up to its limit");
    ratelimit.ok("limit set default --service tcp-syn --packets 1/h --burst 1 --ban 1h");
    ratelimit.ok("limit set default --service tcp/80 --packets 500/s");
    let named = "passes up to its limit, but other rules decide about some services";
    assert_eq!(first("why 10.9.0.5"), format!("10.9.0.5: {named}"));
    let text = ratelimit.ok("why 10.9.0.5 --service tcp/80");
    assert!(text.starts_with(&format!("10.9.0.5 tcp/80: {named}\n")) && text.contains(": tcp-syn (ask "), "{text}");
    assert_eq!(first("why 10.9.0.5 --service tcp-syn"), "10.9.0.5 tcp-syn: passes up to its limit");
    assert_eq!(ratelimit.json("why 10.9.0.5")["unknown"], json!(null));
    ratelimit.ok("set --unknown 500/s");
    let shared = "known:     no, so it shares 500/s with all unknown sources\n";
    assert!(ratelimit.ok("why 10.9.0.5").contains(shared));
    assert_eq!(ratelimit.json("why 10.9.0.5")["unknown"], json!({"per_second": 500, "is_known": false}));
    for rule in ["deny", "allow"] {
        ratelimit.ok(&format!("{rule} add 10.9.0.5"));
        assert_eq!(ratelimit.json("why 10.9.0.5")["unknown"], json!(null), "{rule}");
        ratelimit.ok(&format!("{rule} del 10.9.0.5"));
    }
    ratelimit.ok("detach --all");
}

/// The answer changes with the packet that makes the source known, and its next packet passes beside a flood.
#[test]
fn whether_a_source_is_known_is_told() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1000/s --unknown 10/s");
    ratelimit.ok("limit set default --service udp/53 --packets 1000/s");
    let known = |words: &str| ratelimit.json(&format!("why {words}"))["unknown"]["is_known"].as_bool().unwrap();
    let visitor = Flood::of(Frame::udp([10, 9, 0, 5], 9));
    let sent = wait_until("the source is known", || {
        visitor.send(&sandbox, 1);
        known("10.9.0.5")
    });
    // Three steps of 1.07 s have a packet.
    assert!(sent > Duration::from_millis(1_073), "{sent:?}");
    let text = ratelimit.ok("why 10.9.0.5");
    assert!(text.contains("\nknown:     yes, so it does not share the 10/s of all unknown sources\n"), "{text}");
    assert!(!known("10.9.0.6") && !known("10.9.0.5 --service udp/53"), "another source, and another service");
    Flood::of(Frame::udp([192, 0, 2, 1], 9)).sources(1_000).send(&sandbox, 1_000);
    let refused = || ratelimit.json("status")["unknown"]["refused"].as_u64().unwrap();
    let before = refused();
    assert!(before > 900, "{before}");
    visitor.send(&sandbox, 100);
    assert_eq!(refused(), before, "packets of the known source are limited like those of unknown ones");
    Flood::of(Frame::udp([10, 9, 0, 5], 53)).send(&sandbox, 100);
    assert!(refused() > before + 50, "its packets of another service are not");
    ratelimit.ok("detach --all");
}

/// Its parent refuses the source within the share of its cell, so it needs no bucket.
#[test]
fn a_source_without_a_bucket_is_refused_by_its_cell_and_counted_in_the_totals_only() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // A sample would create a bucket, which counts.
    ratelimit.ok("attach eth0 --packets 1000/s --parent /24=1/h --sample off");
    // The refusal by a parent is cached for a second.
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 5);
    let answer = ratelimit.json("why 10.9.0.7");
    assert_eq!((&answer["refused_now"], &answer["dropped"]["packets"]), (&json!(true), &json!(0)), "{answer}");
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 4);
    ratelimit.ok("detach --all");
}

#[test]
fn the_shadow_of_an_answer_is_that_of_the_present_limit() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 1 --over-limit shadow");
    let counted = |dropped: u64, would_drop: u64, shadow: bool| {
        let answer = ratelimit.json("why 10.9.0.7");
        let counts = [&answer["dropped"]["packets"], &answer["would_drop"]["packets"], &answer["shadow"]];
        assert_eq!(counts, [&json!(dropped), &json!(would_drop), &json!(shadow)], "{answer}");
    };
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 4);
    counted(0, 3, true);
    ratelimit.ok("limit set default --packets 1/h --burst 1 --over-limit drop");
    counted(0, 3, false);
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 5);
    counted(5, 3, false);
    ratelimit.ok("limit set default --packets 1/h --burst 1 --over-limit shadow");
    counted(5, 3, true);
    ratelimit.ok("detach --all");
}
