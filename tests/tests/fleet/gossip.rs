//! Daemons of several hosts share a limit without a server.

use std::{fs, os::unix::fs::PermissionsExt as _};

use ratelimit_tests::{Daemon, Folder, Hosts, Ratelimit};

use crate::stage::{RATE, Traffic, alone, file, one_limit, wait, with_daemons_by};

/// Runs `work` while each host has a daemon that knows all others, with more keys.
pub(crate) fn with_gossip<T>(hosts: &Hosts, more: &str, work: impl FnOnce(&mut [Daemon]) -> T) -> T {
    hosts.join();
    let folder = Folder::new();
    let password = folder.file().with_file_name("password");
    fs::write(&password, "a password of the fleet\n".replace(' ', "-")).unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    // Each host has the same file, also with its own address.
    let peers: Vec<_> = (0..hosts.hosts.len()).map(|number| format!("\"{}\"", Hosts::address(number))).collect();
    let keys = format!(
        "engine = \"gossip\"\npeers = [{}]\npassword-file = \"{}\"\n{more}",
        peers.join(", "),
        password.display()
    );
    with_daemons_by(hosts, |_| keys.clone(), work)
}

/// Waits until each host shares its limits. The first ones may say before that nobody answers.
pub(crate) fn shared(daemons: &mut [Daemon]) {
    for daemon in daemons {
        let first = daemon.line();
        assert!(is_shared(&first) || is_alone(&first) && is_shared(&daemon.line()), "{first}");
    }
}

fn is_shared(line: &str) -> bool {
    line.contains("fleet: gossip with 10.8.0.1:7947, ") && line.ends_with(": limits are shared")
}

fn is_alone(line: &str) -> bool {
    line.ends_with("no other host answers: local limits apply until it does")
}

#[test]
fn three_hosts_without_a_server_admit_one_limit_together() {
    let _alone = alone();
    let hosts = Hosts::new(3);
    with_gossip(&hosts, "", |daemons| {
        shared(daemons);
        let traffic = Traffic::begin(&hosts, &[3 * RATE; 3]);
        wait(8.0);
        let seconds = traffic.seconds(8);
        println!("{seconds:?}");
        one_limit(&seconds[3..], 0.1);
        let status = Ratelimit::new(&hosts.hosts[0]).json("fleet status");
        let members = status["members"].as_array().unwrap();
        let names: Vec<_> = members.iter().map(|member| member["name"].as_str().unwrap()).collect();
        assert_eq!((status["up"].as_bool(), names), (Some(true), vec!["host0", "host1", "host2"]));
        let share = status["sources"][0]["share"].as_f64().unwrap();
        assert!((0.25..0.45).contains(&share), "{share}");
        let text = Ratelimit::new(&hosts.hosts[0]).ok("fleet status");
        println!("{text}");
        assert!(text.starts_with("engine gossip (2 of 2 peers alive) has answered for "), "{text}");
        let metrics = Ratelimit::new(&hosts.hosts[1]).ok("metrics");
        for line in ["ratelimit_fleet_engine_up 1", "ratelimit_fleet_hosts 3", "ratelimit_fleet_shared_sources 1"] {
            assert!(metrics.lines().any(|found| found == line), "{line}");
        }
    });
}

#[test]
fn a_host_that_is_alone_in_its_file_shares_with_nobody_and_keeps_its_address_when_the_file_changes() {
    let hosts = Hosts::new(1);
    let folder = Folder::new();
    let keys = |weight| format!("engine = \"gossip\"\nlisten = \"127.0.0.1\"\nweight = {weight}\n");
    folder.write(&file(0, &keys(1)));
    let ratelimit = Ratelimit::new(&hosts.hosts[0]);
    let mut daemon = Daemon::start(&hosts.hosts[0], &ratelimit, &folder.file());
    let mut expect = |expected: &str| {
        let line = daemon.line();
        assert!(line.contains(expected), "{line}");
    };
    expect("in force");
    expect("fleet: gossip answers: limits are shared");
    folder.write(&file(0, &keys(2)));
    expect("reloaded");
    expect("fleet: gossip answers: limits are shared");
    let text = ratelimit.ok("fleet status");
    assert!(text.starts_with("engine gossip (0 of 0 peers alive) has answered for "), "{text}");
    daemon.end();
    ratelimit.ok("detach --all");
}
