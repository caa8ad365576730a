//! Hosts tell each other which sources they deny.

mod stops;

use std::time::Instant;

use ratelimit_tests::{Hosts, PATIENCE, Ratelimit};
use serde_json::Value;

use crate::stage::{RATE, SOURCE, Traffic, alone, at_the_server, wait, with_daemons_by};

pub(crate) const BANS: &str = "share = [\"bans\"]\naccept = [\"limits\", \"bans\"]\n";

/// Waits until the list of denied sources of a host is this one.
pub(crate) fn await_denied(ratelimit: &Ratelimit, expected: &[&str]) {
    let begin = Instant::now();
    let denied = || {
        // The exit status is 1 without an answer of the engine.
        let status: Value = serde_json::from_str(&ratelimit.run("fleet status --json").stdout).unwrap();
        let sources = status["denies"]["sources"].as_array().into_iter().flatten();
        let mut sources: Vec<_> = sources.map(|source| source["source"].as_str().unwrap().to_owned()).collect();
        sources.sort_unstable();
        (status["denies"]["in_force"].as_u64() == Some(sources.len() as u64), sources)
    };
    while denied() != (true, expected.iter().map(|&it| it.to_owned()).collect()) {
        assert!(begin.elapsed() < PATIENCE, "{:?} instead of {expected:?}", denied());
        wait(0.1);
    }
    println!("{expected:?} after {:.1} s", begin.elapsed().as_secs_f64());
}

#[test]
fn what_one_host_denies_is_denied_on_those_that_accept_it_until_it_ends() {
    let _alone = alone();
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    // The last host accepts nothing. The second one allows an address by its file.
    let keys = |number: usize| {
        let bans = if number < 2 { BANS } else { "" };
        let rules = if number == 1 { "[[rule]]\nsource = \"198.51.100.9\"\npolicy = \"allow\"\n" } else { "" };
        at_the_server(number, &format!("{bans}{rules}"))
    };
    with_daemons_by(&hosts, keys, |_| {
        let [one, other, third] = [0, 1, 2].map(|number| Ratelimit::new(&hosts.hosts[number]));
        let traffic = Traffic::begin(&hosts, &[0, RATE / 5, RATE / 5]);
        wait(2.0);
        one.ok(&format!("deny add {SOURCE} --for 10m"));
        one.ok("deny add 198.51.100.9");
        one.ok("deny add 203.0.113.0/24 --for 12s");
        one.ok("deny add 203.0.0.0/15");
        one.ok("deny add 198.51.100.10 --service tcp/80");
        await_denied(&other, &[&SOURCE.to_string(), "198.51.100.9", "203.0.113.0/24"]);
        wait(1.5);
        let [denied, elsewhere] = [1, 2].map(|host| traffic.seconds_of(host, 1)[0]);
        assert!(denied == 0.0 && elsewhere > 0.15, "{denied} {elsewhere}");
        let why = |address: &str| other.json(&format!("why {address}"))["verdict"].as_str().unwrap().to_owned();
        assert_eq!([why(&SOURCE.to_string()), why("198.51.100.9")], ["drop", "pass"]);
        assert!(third.json("list list").as_array().unwrap().is_empty());
        assert_eq!(third.json("fleet status")["denies"], Value::Null);
        let list = other.json("list list")[0].clone();
        assert_eq!((list["name"].as_str(), list["origin"].as_str()), (Some("fleet:bans"), Some("fleet")));
        assert!(list["expires_in_seconds"].as_u64().unwrap() <= 60, "{list}");
        let text = other.ok("fleet status");
        assert!(text.contains("0 denied sources told to other hosts") && text.contains("host0"), "{text}");
        // One of them ends by itself. The host lifts the others. A list that a command deletes is there again at once.
        await_denied(&other, &[&SOURCE.to_string(), "198.51.100.9"]);
        let denied = other.run(&format!("deny del {SOURCE}"));
        assert!(denied.stdout.contains("the list fleet:bans has it, because another host denies it"), "{denied:?}");
        let deleted = other.ok("list del fleet:bans");
        assert!(deleted.contains("a daemon runs: its fleet sets this list again"), "{deleted}");
        wait(4.0);
        assert_eq!(other.json("list list")[0]["name"], "fleet:bans");
        one.ok("deny del 198.51.100.9");
        await_denied(&other, &[&SOURCE.to_string()]);
        one.ok(&format!("deny del {SOURCE}"));
        await_denied(&other, &[]);
        wait(1.5);
        assert!(traffic.seconds_of(1, 1)[0] > 0.15);
        assert!(other.json("list list").as_array().unwrap().is_empty());
    });
}

#[test]
fn a_ban_of_a_limit_reaches_the_other_host() {
    let _alone = alone();
    let hosts = Hosts::new(2);
    let _redis = hosts.redis(&[]);
    let keys = |number: usize| {
        let ban = format!("{BANS}[[rule]]\nsource = \"10.9.0.64/26\"\npackets = \"100/s\"\nban = \"10m\"\n");
        at_the_server(number, &ban)
    };
    with_daemons_by(&hosts, keys, |_| {
        let [one, other] = [0, 1].map(|number| Ratelimit::new(&hosts.hosts[number]));
        let traffic = Traffic::begin(&hosts, &[5 * RATE, 0]);
        await_denied(&other, &[&SOURCE.to_string()]);
        drop(traffic);
        assert_eq!(one.json("fleet status")["denies"]["told"], 1);
        one.ok(&format!("deny del {SOURCE}"));
        await_denied(&other, &[]);
    });
}
