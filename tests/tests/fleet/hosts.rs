//! Daemons of several hosts share a limit through a real Redis server.

use ratelimit_tests::{Daemon, Folder, Hosts, Ratelimit};

use crate::stage::{RATE, SOURCE, Traffic, alone, at_the_server, file, one_limit, wait, with_daemons};

#[test]
fn three_hosts_admit_one_limit_together() {
    let _alone = alone();
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |daemons| {
        let traffic = Traffic::begin(&hosts, &[10 * RATE; 3]);
        wait(12.0);
        let seconds = traffic.seconds(12);
        println!("{seconds:?}");
        // The third second can still pay back a little of the first one.
        let [third, later @ ..] = &seconds[2..] else { panic!("{seconds:?}") };
        assert!((0.92..=1.05).contains(third), "{seconds:?}");
        one_limit(later, 0.05);
        for daemon in daemons {
            let line = daemon.line();
            assert!(line.ends_with("answers: limits are shared"), "{line}");
        }
        let status = Ratelimit::new(&hosts.hosts[0]).json("fleet status");
        let members = status["members"].as_array().unwrap();
        let mut names: Vec<_> = members.iter().map(|member| member["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!((status["up"].as_bool(), names), (Some(true), vec!["host0", "host1", "host2"]));
        let [source] = &status["sources"].as_array().unwrap()[..] else { panic!("{status}") };
        assert_eq!(
            (source["source"].as_str(), source["limit_per_second"].as_f64()),
            (Some("10.9.0.66"), Some(1_000.0))
        );
        let share = source["share"].as_f64().unwrap();
        assert!((0.25..0.45).contains(&share), "{share}");
        let text = Ratelimit::new(&hosts.hosts[0]).ok("fleet status");
        println!("{text}");
        assert!(
            text.contains("host0 (this host)") && text.contains("1 source reported, 1 of them with a share"),
            "{text}"
        );
        let metrics = Ratelimit::new(&hosts.hosts[1]).ok("metrics");
        for line in ["ratelimit_fleet_engine_up 1", "ratelimit_fleet_hosts 3", "ratelimit_fleet_shared_sources 1"] {
            assert!(metrics.lines().any(|found| found == line), "{line}");
        }
    });
}

#[test]
fn a_source_below_the_limit_in_all_loses_nothing() {
    let _alone = alone();
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |_| {
        let traffic = Traffic::begin(&hosts, &[3 * RATE / 10; 3]);
        wait(8.0);
        let (seconds, sent) = (traffic.seconds(8), traffic.sent());
        println!("{seconds:?}");
        assert!(sent > 7 * RATE, "{sent}");
        for host in &hosts.hosts {
            let reasons = Ratelimit::new(host).json("status")["reasons"].clone();
            let dropped = ["over-packets", "over-share"].map(|reason| reasons[reason]["packets"].as_u64().unwrap());
            assert_eq!(dropped, [0, 0]);
        }
    });
}

#[test]
fn a_source_on_one_host_alone_gets_the_whole_limit() {
    let _alone = alone();
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |_| {
        let traffic = Traffic::begin(&hosts, &[10 * RATE, 0, 0]);
        wait(8.0);
        let seconds = traffic.seconds(8);
        println!("{seconds:?}");
        one_limit(&seconds[2..], 0.01);
    });
}

#[test]
fn a_source_that_no_host_refuses_is_found_although_all_together_exceed_its_limit() {
    let _alone = alone();
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |_| {
        let traffic = Traffic::begin(&hosts, &[8 * RATE / 10; 3]);
        wait(8.0);
        let seconds = traffic.seconds(8);
        println!("{seconds:?}");
        one_limit(&seconds[5..], 0.05);
    });
}

#[test]
fn an_ipv6_source_shares_its_limit_also_without_cells() {
    let _alone = alone();
    let hosts = Hosts::new(2);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "[settings]\nfront = false\n", |_| {
        let source = "fd00:9:0:7::1".parse().unwrap();
        let traffic = Traffic::from(source, &hosts, &[5 * RATE; 2]);
        wait(8.0);
        let seconds = traffic.seconds(5);
        println!("{seconds:?}");
        one_limit(&seconds, 0.05);
        let status = Ratelimit::new(&hosts.hosts[0]).json("fleet status");
        assert_eq!(status["sources"][0]["source"], "fd00:9:0:7::/64");
    });
}

#[test]
fn a_source_with_a_rule_of_its_own_is_reported_only_without_it() {
    let _alone = alone();
    let hosts = Hosts::new(1);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "limits = \"default\"\n", |daemons| {
        let line = daemons[0].line();
        assert!(line.ends_with("answers: limits are shared"), "{line}");
        let _traffic = Traffic::begin(&hosts, &[3 * RATE]);
        let ratelimit = Ratelimit::new(&hosts.hosts[0]);
        let reported = || {
            wait(3.0);
            ratelimit.json("fleet status")["reported"].as_u64()
        };
        assert_eq!(reported(), Some(1));
        ratelimit.ok(&format!("limit set {SOURCE} --packets 500/s"));
        assert_eq!(reported(), Some(0));
        ratelimit.ok(&format!("limit del {SOURCE}"));
        assert_eq!(reported(), Some(1));
    });
}

#[test]
fn a_limit_that_changes_while_a_source_is_reported_is_the_one_that_hosts_share() {
    let _alone = alone();
    let hosts = Hosts::new(1);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "limits = \"all\"\n", |daemons| {
        let line = daemons[0].line();
        assert!(line.ends_with("answers: limits are shared"), "{line}");
        let traffic = Traffic::begin(&hosts, &[3 * RATE]);
        let ratelimit = Ratelimit::new(&hosts.hosts[0]);
        let limit = || {
            wait(3.0);
            ratelimit.json("fleet status")["sources"][0]["limit_per_second"].as_f64()
        };
        assert_eq!(limit(), Some(1_000.0));
        for (command, expected) in [
            ("limit set default --packets 500/s", 500.0),
            (&format!("limit set {SOURCE} --packets 200/s"), 200.0),
            (&format!("limit set {SOURCE} --packets 300/s"), 300.0),
            (&format!("limit del {SOURCE}"), 500.0),
        ] {
            ratelimit.ok(command);
            assert_eq!(limit(), Some(expected), "{command}");
        }
        let admitted = traffic.seconds(1);
        assert!((0.47..0.53).contains(&admitted[0]), "{admitted:?}");
    });
}

#[test]
fn a_file_without_the_table_ends_all_shares() {
    let _alone = alone();
    let hosts = Hosts::new(2);
    let _redis = hosts.redis(&[]);
    let folder = Folder::new();
    folder.write(&file(0, &at_the_server(0, "")));
    let ratelimit = Ratelimit::new(&hosts.hosts[0]);
    let mut daemon = Daemon::start(&hosts.hosts[0], &ratelimit, &folder.file());
    for expected in ["in force", "limits are shared"] {
        let line = daemon.line();
        assert!(line.contains(expected), "{line}");
    }
    let traffic = Traffic::begin(&hosts, &[3 * RATE, 0]);
    wait(2.0);
    assert_eq!(ratelimit.json("fleet status")["shared"], 1);
    folder.write(&format!("interfaces = [\"eth0\"]\n[default]\npackets = \"{RATE}/s\"\nburst = 100\n"));
    let line = daemon.line();
    assert!(line.contains("fleet: on, now off"), "{line}");
    let error = ratelimit.fails("fleet status");
    assert!(error.contains("this host is in no fleet"), "{error}");
    wait(2.0);
    let last = traffic.seconds(1);
    assert!((0.98..=1.02).contains(&last[0]), "{last:?}");
    drop(traffic);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_host_without_a_fleet_says_so() {
    let hosts = Hosts::new(1);
    let error = Ratelimit::new(&hosts.hosts[0]).fails("fleet status");
    assert!(error.contains("no daemon runs"), "{error}");
}
