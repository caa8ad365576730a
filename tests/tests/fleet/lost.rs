//! Shared rules that the engine has lost, and versions that nobody has.

use ratelimit_tests::{Daemon, Folder, Hosts, Ratelimit, wait_until};
use serde_json::Value;

use crate::{
    faults::ask,
    rules::{RULES, await_version, make},
    stage::{at_the_server, file, with_daemons_by},
};

/// Returns what a host knows of its fleet. The exit status is 1 without an answer of the engine. Null before the daemon has
/// joined the fleet.
fn status(ratelimit: &Ratelimit) -> Value {
    serde_json::from_str(&ratelimit.run("fleet status --json").stdout).unwrap_or_default()
}

fn verdict(ratelimit: &Ratelimit, address: &str) -> String {
    ratelimit.json(&format!("why {address}"))["verdict"].as_str().unwrap().to_owned()
}

#[test]
fn a_daemon_that_starts_while_the_engine_has_no_rules_keeps_those_in_force() {
    let hosts = Hosts::new(1);
    let _redis = hosts.redis(&[]);
    let (host, folder) = (&hosts.hosts[0], Folder::new());
    folder.write(&file(0, &at_the_server(0, RULES)));
    let ratelimit = Ratelimit::new(host);
    let start = || {
        let mut daemon = Daemon::start(host, &ratelimit, &folder.file());
        let line = daemon.line();
        assert!(line.contains("in force"), "{line}");
        daemon
    };
    let daemon = start();
    wait_until("the engine answers", || status(&ratelimit)["up"] == true);
    make(&ratelimit, "set 203.0.113.7 --deny", 1);
    await_version(&ratelimit, Some(1), None);
    daemon.end();
    ask(&hosts, &["FLUSHALL"]);
    let mut daemon = start();
    let problem = || status(&ratelimit)["rules"]["problem"].as_str().unwrap_or_default().to_owned();
    wait_until("the host keeps the rules", || problem().contains("this host keeps those of before"));
    assert_eq!(verdict(&ratelimit, "203.0.113.7"), "drop");
    let error = ratelimit.fails("fleet rules set 203.0.113.8 --deny");
    assert!(error.contains("the engine has lost the shared rules") && error.contains("--anew"), "{error}");
    make(&ratelimit, "set 203.0.113.8 --deny --anew", 1);
    await_version(&ratelimit, Some(1), None);
    assert_eq!(["203.0.113.7", "203.0.113.8"].map(|source| verdict(&ratelimit, source)), ["limit", "drop"]);
    assert_eq!(problem(), "");
    // A host that leaves the fleet deletes them.
    folder.write(&file(0, "").replace("[fleet]\nname = \"host0\"\n", ""));
    wait_until("the rules are deleted", || ratelimit.json("list list").as_array().unwrap().is_empty());
    while !daemon.line().contains(": reloaded, ") {}
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_forged_version_stops_no_host_that_knows_the_rules_and_no_operator_who_insists() {
    let hosts = Hosts::new(2);
    let _redis = hosts.redis(&[]);
    // The second host takes no shared rules, so it does not know them.
    let keys = |number: usize| at_the_server(number, if number == 0 { RULES } else { "" });
    with_daemons_by(&hosts, keys, |_| {
        let [one, other] = [0, 1].map(|number| Ratelimit::new(&hosts.hosts[number]));
        wait_until("the engine answers", || [&one, &other].iter().all(|host| status(host)["up"] == true));
        make(&one, "set 203.0.113.1 --deny", 1);
        let says = r#"{"name":"forged","version":"1","weight":1,"limit":"","rules":9007199254740991}"#;
        ask(&hosts, &["HSET", "{rl:m}:hosts", "x", says]);
        ask(&hosts, &["ZADD", "{rl:m}:heard", "9000000000000000", "x"]);
        let hears = |host: &Ratelimit| status(host)["members"].to_string().contains("forged");
        wait_until("both hear of it", || hears(&one) && hears(&other));
        make(&one, "set 203.0.113.2 --deny", 2);
        let error = other.fails("fleet rules set 203.0.113.3 --deny");
        assert!(
            error.contains("forged says that it has version 9007199254740991") && error.contains("--anew"),
            "{error}"
        );
        make(&other, "set 203.0.113.3 --deny --anew", 3);
        await_version(&one, Some(3), None);
    });
}

#[test]
fn another_text_with_the_number_of_a_lost_version_is_found() {
    let hosts = Hosts::new(1);
    let _redis = hosts.redis(&[]);
    let keys = |number: usize| at_the_server(number, RULES);
    with_daemons_by(&hosts, keys, |_| {
        let ratelimit = Ratelimit::new(&hosts.hosts[0]);
        wait_until("the engine answers", || status(&ratelimit)["up"] == true);
        make(&ratelimit, "set 203.0.113.1 --deny", 1);
        await_version(&ratelimit, Some(1), None);
        let text = "[[rule]]\nsource = \"203.0.113.2\"\npolicy = \"deny\"\n";
        ask(&hosts, &["HSET", "{rl:m}:rules", "text", text, "digest", "another"]);
        wait_until("the other text is in force", || verdict(&ratelimit, "203.0.113.2") == "drop");
        assert_eq!(verdict(&ratelimit, "203.0.113.1"), "limit");
        await_version(&ratelimit, Some(1), None);
        assert!(ratelimit.ok("events --past").contains("has another text now"));
        make(&ratelimit, "set 203.0.113.3 --deny", 2);
    });
}
