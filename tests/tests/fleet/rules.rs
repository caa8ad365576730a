//! Rules that all hosts of a fleet share.

use std::{
    fs,
    time::{Duration, Instant},
};

use ratelimit_dataplane::{instance::read_only::View, pins::layout::PINS};
use ratelimit_tests::{Hosts, PATIENCE, Ratelimit, Sandbox, scaled, wait_until};
use serde_json::Value;

use crate::{
    faults::ask,
    stage::{RATE, SOURCE, Traffic, at_the_server, wait, with_daemons_by},
};

pub(crate) const RULES: &str = "accept = [\"limits\", \"rules\"]\n";

/// Waits until a host has this version in force and refuses a newer one for this reason.
pub(crate) fn await_version(ratelimit: &Ratelimit, version: Option<u64>, refused: Option<&str>) {
    let begin = Instant::now();
    let state = || {
        let status: Value = serde_json::from_str(&ratelimit.run("fleet status --json").stdout).unwrap();
        let rules = status["rules"].clone();
        (rules["in_force"].as_u64(), rules["refused"].as_str().map(ToOwned::to_owned))
    };
    let is_right = |(found, why): &(Option<u64>, Option<String>)| {
        let is_refused = match (why, refused) {
            (Some(why), Some(expected)) => why.contains(expected),
            (why, expected) => why.is_none() && expected.is_none(),
        };
        *found == version && is_refused
    };
    while !is_right(&state()) {
        assert!(begin.elapsed() < PATIENCE, "{:?} instead of {version:?}, {refused:?}", state());
        wait(0.1);
    }
}

#[test]
fn hosts_put_each_version_of_shared_rules_in_force_as_a_whole_or_say_why_not() {
    let hosts = Hosts::new(2);
    let _redis = hosts.redis(&[]);
    // The second host has a stricter limit for each source, and its file allows an address.
    let keys = |number: usize| {
        let rules = "[[rule]]\nsource = \"198.51.100.9\"\npolicy = \"allow\"\n";
        at_the_server(number, &if number == 1 { format!("{RULES}{rules}") } else { RULES.to_owned() })
    };
    with_daemons_by(&hosts, keys, |_| {
        let [one, other] = [0, 1].map(|number| Ratelimit::new(&hosts.hosts[number]));
        let traffic = Traffic::begin(&hosts, &[RATE / 5, RATE / 5]);
        let written = make(&one, "set 198.51.100.9 203.0.113.0/24 --deny --why scans", 1);
        assert!(written.is_none_or(|written| written["refused"] == Value::Null));
        make(&other, &format!("set {SOURCE} --packets 100/s --burst 10 --comment slow"), 2);
        [&one, &other].iter().for_each(|host| await_version(host, Some(2), None));
        let list = other.json("fleet rules list");
        let rows: Vec<_> =
            list["rules"].as_array().unwrap().iter().map(|row| row["source"].as_str().unwrap()).collect();
        assert_eq!((list["version"].as_u64(), rows), (Some(2), vec!["198.51.100.9", "203.0.113.0/24", "10.9.0.66"]));
        let verdict = |host: &Ratelimit, address: &str| host.json(&format!("why {address}"))["verdict"].clone();
        assert_eq!([verdict(&one, "198.51.100.9"), verdict(&other, "198.51.100.9")], ["drop", "pass"]);
        wait(2.0);
        let rates = [0, 1].map(|host| traffic.seconds_of(host, 1)[0]);
        assert!(rates.iter().all(|rate| (0.09..=0.12).contains(rate)), "{rates:?}");

        // A rule that admits more than the default limit is refused before it is written.
        let more = one.fails(&format!("fleet rules set {SOURCE} --packets 5k/s"));
        assert!(more.contains("nothing was changed: this host refuses"), "{more}");
        assert!(more.contains("is more than the default limit of this host"), "{more}");
        // A host with a stricter limit refuses it, and keeps the version before it.
        one.ok("limit set default --packets 10k/s --burst 1000");
        make(&one, &format!("set {SOURCE} --packets 5k/s --burst 500"), 3);
        await_version(&one, Some(3), None);
        await_version(&other, Some(2), Some("is more than the default limit"));
        // Each host hears of that within two heartbeats.
        wait(2.5);
        let status = one.ok("fleet status");
        assert_eq!(status.matches("version 2, refuses a newer one").count(), 1, "{status}");
        one.ok(&format!("limit set default --packets {RATE}/s --burst 100"));
        make(&one, "revert 2", 4);
        [&one, &other].iter().for_each(|host| await_version(host, Some(4), None));
        assert_eq!(one.json("fleet rules list")["rules"], list["rules"]);
        make(&one, &format!("del {SOURCE} --why over"), 5);
        [&one, &other].iter().for_each(|host| await_version(host, Some(5), None));
        assert_eq!(one.run("fleet rules del 192.0.2.1").status, 1);
        let log = one.json("fleet rules log");
        let entry = |index: usize| (log[index]["version"].as_u64().unwrap(), log[index]["why"].as_str().unwrap());
        assert_eq!([0, 1, 4].map(entry), [(5, "over"), (4, "revert to 2"), (1, "scans")]);
        assert!(log[0]["who"].as_str().unwrap().ends_with(" on host0"), "{log}");
        let changes = |index: usize| log[index]["changes"][0].as_str().unwrap();
        assert!(changes(0).starts_with(&format!("- {SOURCE} 100/s")), "{log}");
        assert!(changes(1).starts_with(&format!("{SOURCE}: 5000/s")), "{log}");
        assert_eq!(changes(4), "+ 198.51.100.9 deny");

        // Own stricter limits withdraw shared rules that would admit more.
        make(&one, &format!("set {SOURCE} --packets 500/s --burst 50"), 6);
        await_version(&other, Some(6), None);
        other.ok("limit set default --packets 50/s --burst 5");
        await_version(&other, None, Some("is more than the default limit"));
        let of_fleet = |host: &Ratelimit| host.json("list list").as_array().unwrap().len();
        assert_eq!([of_fleet(&one), of_fleet(&other)], [2, 0]);
        other.ok(&format!("limit set default --packets {RATE}/s --burst 100"));
        await_version(&other, Some(6), None);

        // An engine that has lost the rules takes none away, and a new rule brings back the others.
        ask(&hosts, &["FLUSHALL"]);
        wait(3.0);
        await_version(&other, Some(6), None);
        assert!(other.ok("fleet status").contains("the engine has lost version 6"), "{}", other.ok("fleet status"));
        assert_eq!(of_fleet(&other), 2);
        make(&other, "set 192.0.2.1 --deny --for 15s", 7);
        [&one, &other].iter().for_each(|host| await_version(host, Some(7), None));
        assert_eq!(verdict(&other, "192.0.2.1"), "drop");
        assert_eq!(one.json("fleet rules list")["rules"].as_array().unwrap().len(), 4);
        wait_until("the rule has ended", || [&one, &other].iter().all(|host| verdict(host, "192.0.2.1") == "limit"));
    });
    let error = Ratelimit::new(&hosts.hosts[0]).fails("fleet rules list");
    assert!(error.contains("no daemon runs"), "{error}");
}

/// Returns how often the generation of the rules changes in this time. Each try to put rules in force takes less than a
/// step.
fn changes(host: &Sandbox, time: Duration) -> usize {
    let begin = Instant::now();
    let mut generations = Vec::new();
    while begin.elapsed() < time {
        let view = host.victim(|| View::open(PINS.as_ref()).unwrap());
        generations.push(view.tables().control().unwrap().generation);
        wait(0.1);
    }
    generations.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Changes the shared rules, which makes this version. Returns what the daemon answers. One that is too busy to answer in time
/// makes it all the same.
pub(crate) fn make(ratelimit: &Ratelimit<'_>, words: &str, version: u64) -> Option<Value> {
    let output = ratelimit.run(&format!("fleet rules {words} --json"));
    let answer: Option<Value> = (output.status == 0).then(|| serde_json::from_str(&output.stdout).unwrap());
    match &answer {
        Some(answer) => assert_eq!(answer["version"], version, "{words}"),
        None => assert!(output.stderr.contains("no answer in time"), "{words}: {output:?}"),
    }
    wait_until(&format!("version {version}"), || {
        let log = ratelimit.run("fleet rules log --json");
        log.status == 0 && serde_json::from_str::<Value>(&log.stdout).unwrap()[0]["version"] == version
    });
    answer
}

#[test]
fn rules_that_would_block_an_ssh_session_are_tried_again_ever_more_rarely_and_at_once_after_a_change() {
    let hosts = Hosts::new(1);
    let _redis = hosts.redis(&[]);
    let host = &hosts.hosts[0];
    with_daemons_by(
        &hosts,
        |number| at_the_server(number, RULES),
        |_| {
            let ratelimit = Ratelimit::new(host);
            wait_until("the engine answers", || ratelimit.run("fleet status").status == 0);
            // Two lists, since two policies that no rule uses are removed before others are added.
            make(&ratelimit, "set 192.0.2.1 --packets 10/s", 1);
            make(&ratelimit, "set 10.9.0.5 --deny", 2);
            make(&ratelimit, "del 192.0.2.1 10.9.0.5", 3);
            await_version(&ratelimit, Some(3), None);
            host.victim(|| {
                fs::create_dir_all("/run/systemd/sessions").unwrap();
                let session = "STATE=active\nREMOTE=1\nREMOTE_HOST=10.9.0.5\nSERVICE=sshd\n";
                fs::write("/run/systemd/sessions/1", session).unwrap();
            });
            make(&ratelimit, "revert 2", 4);
            await_version(&ratelimit, Some(3), Some("an SSH session comes from 10.9.0.5"));
            // Tries begin after 0, 1, 3, 7, 15 and 31 seconds, and may take two changes each.
            let begin = Instant::now();
            let tries = changes(host, Duration::from_secs(17));
            assert!((1..=8).contains(&tries), "{tries} changes in 17 seconds");
            ratelimit.ok("allow add 10.9.0.5");
            await_version(&ratelimit, Some(4), None);
            assert!(begin.elapsed() < scaled(Duration::from_secs(28)), "{:?}", begin.elapsed());
        },
    );
}

#[test]
fn rules_that_a_fleet_may_not_share_are_refused_in_one_line() {
    let hosts = Hosts::new(1);
    let ratelimit = Ratelimit::new(&hosts.hosts[0]);
    for (words, expected) in [
        ("192.0.2.1", "give --deny or a rate"),
        ("default --deny", "expected an address or a prefix"),
        ("0.0.0.0/0 --deny", "a shared rule has at least 8 bits"),
        ("192.0.2.1 --packets 10/s --ban 1m", "a shared limit has rates, a burst and an algorithm only"),
        ("192.0.2.1 --deny --packets 10/s", "--deny"),
    ] {
        let error = ratelimit.fails(&format!("fleet rules set {words}"));
        assert!(error.contains(expected), "{words}: {error}");
    }
}
