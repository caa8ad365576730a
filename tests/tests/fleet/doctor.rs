//! What `doctor` finds about a fleet.

use ratelimit_tests::{Daemon, Folder, Hosts, Ratelimit, wait_until};
use serde_json::Value;

use crate::stage::file;

#[test]
fn doctor_names_peers_that_no_rule_allows_on_an_interface_with_limits() {
    let hosts = Hosts::new(2);
    hosts.join();
    let folders = [Folder::new(), Folder::new()];
    let all: Vec<_> = hosts.hosts.iter().map(Ratelimit::new).collect();
    let peers = [0, 1].map(|number| format!("\"{}\"", Hosts::address(number))).join(", ");
    let start = |number: usize| {
        let password = folders[number].add("password", "a-password-of-the-fleet\n");
        let keys = format!("engine = \"gossip\"\npeers = [{peers}]\npassword-file = \"{}\"\n", password.display());
        // Datagrams reach the first host through an interface with limits.
        let interfaces = if number == 0 { "\"eth0\", \"engine0\"" } else { "\"eth0\"" };
        folders[number].write(&file(number, &keys).replacen("\"eth0\"", interfaces, 1));
        let mut daemon = Daemon::start(&hosts.hosts[number], &all[number], &folders[number].file());
        let line = daemon.line();
        assert!(line.contains("in force"), "{line}");
        daemon
    };
    let daemons = [0, 1].map(start);
    let found = |number: usize| {
        let findings: Value = serde_json::from_str(&all[number].run("doctor --json").stdout).unwrap();
        let findings = findings.as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["what"].as_str().unwrap().starts_with("no rule allows these peers"))
    };
    wait_until("the hosts hear each other", || all[0].run("fleet status").status == 0);
    let (finding, other) = (found(0).unwrap(), Hosts::address(1));
    assert_eq!(finding["what"], format!("no rule allows these peers: {other}"));
    assert_eq!((finding["severity"].as_str(), finding["check"].as_str()), (Some("note"), Some("fleet")));
    assert_eq!(found(1), None);
    all[0].ok(finding["fix"].as_str().unwrap().strip_prefix("ratelimit ").unwrap());
    assert_eq!(found(0), None);
    daemons.into_iter().for_each(Daemon::end);
    all.iter().for_each(|ratelimit| {
        ratelimit.ok("detach --all");
    });
}
