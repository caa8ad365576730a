//! Hosts whose engine is a cluster without replicas: a server stops, and a slot moves.

use std::net::Ipv4Addr;

use ratelimit_common::fleet::share::Limit;
use ratelimit_fleet::key::Key;
use ratelimit_tests::{Arrivals, Cluster, Daemon, Hosts};
use rustix::process::Signal;

use super::COUNT;
use crate::stage::{RATE, SOURCE, Traffic, alone, list, one_limit, wait, with_daemons_by};

/// The key of what the engine knows about hosts.
const HOSTS: &str = "{rl:m}:hosts";
/// The port of the packets of a second source.
const OTHER_PORT: u16 = 10;

fn key(source: Ipv4Addr) -> String {
    Key::of(&source.to_string(), &Limit { rate: RATE as f64, burst: 100.0 }).as_str().to_owned()
}

/// Returns a source whose record is on a server for which `is_right`.
fn source(cluster: &Cluster, is_right: impl Fn(u16) -> bool) -> Ipv4Addr {
    // The links of each host have the first addresses.
    let mut sources = (60..=250).map(|last| Ipv4Addr::new(10, 9, 0, last));
    sources.find(|source| is_right(cluster.port_of(&key(*source)))).unwrap()
}

fn with_cluster(hosts: &Hosts, cluster: &Cluster, work: impl FnOnce(&mut [Daemon])) {
    let keys = format!("engine = [{}]\nservers = \"cluster\"\n", list(&cluster.urls()));
    with_daemons_by(
        hosts,
        |_| keys.clone(),
        |daemons| {
            for daemon in daemons.iter_mut() {
                let line = daemon.line();
                assert!(line.ends_with("answers: limits are shared"), "{line}");
            }
            work(daemons);
        },
    );
}

/// Stops a server of a cluster under traffic of a source on it, and of one on another server.
fn stop(name: &str, choose: impl FnOnce(&Cluster, u16) -> u16) {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    let cluster = hosts.cluster_without_replicas();
    let stopped = choose(&cluster, cluster.port_of(HOSTS));
    let [hit, spared] = [source(&cluster, |port| port == stopped), source(&cluster, |port| port != stopped)];
    with_cluster(&hosts, &cluster, |daemons| {
        let traffic = [(hit, OTHER_PORT - 1), (spared, OTHER_PORT)];
        let traffic = traffic.map(|(source, port)| Traffic::to(port, source.into(), &hosts, &[3 * RATE; COUNT]));
        wait(5.0);
        let mean = |traffic: &Traffic| traffic.seconds(2).iter().sum::<f64>() / 2.0;
        let before = traffic.each_ref().map(mean);
        one_limit(&before, 0.1);
        cluster.signal(stopped, Signal::STOP);
        let begin = Arrivals::now();
        wait(8.0);
        let during = traffic.each_ref().map(mean);
        let settled = traffic[1].shared_after(begin, 8);
        println!(
            "{name}: {:.2} of the limit for its source, {:.2} for another one, shared after {settled:.1} s",
            during[0], during[1]
        );
        cluster.signal(stopped, Signal::CONT);
        let begin = Arrivals::now();
        wait(6.0);
        let (after, recovered) = (traffic.each_ref().map(mean), traffic[0].shared_after(begin, 6));
        println!("{name}: shared again after {recovered:.1} s, then {:.2} and {:.2}", after[0], after[1]);
        drop(traffic);
        assert!((2.8..=3.1).contains(&during[0]), "{during:?}");
        assert!((0.9..=1.1).contains(&during[1]), "{during:?}");
        one_limit(&after, 0.1);
        for daemon in daemons {
            let lines = [daemon.line(), daemon.line()];
            let is_told_once = lines[0].contains("only for some sources") && lines[1].contains("answers again");
            assert!(is_told_once, "{lines:?}");
        }
    });
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_stopped_server_of_a_cluster_leaves_the_sources_of_the_others_shared() {
    let other = |cluster: &Cluster, of_hosts: u16| cluster.ports().into_iter().find(|port| *port != of_hosts).unwrap();
    stop("a stopped server of a cluster", other);
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn the_server_that_knows_the_hosts_is_stopped_and_the_sources_of_the_others_are_shared() {
    stop("the stopped server that knows the hosts", |_, of_hosts| of_hosts);
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_slot_moves_to_another_server_while_its_source_is_shared() {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    let cluster = hosts.cluster_without_replicas();
    let key = key(SOURCE);
    let from = cluster.port_of(&key);
    let to = cluster.ports().into_iter().find(|port| *port != from).unwrap();
    with_cluster(&hosts, &cluster, |daemons| {
        let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
        wait(5.0);
        let [from_id, to_id] = [from, to].map(|port| cluster.ask(port, &["CLUSTER", "MYID"]));
        let slot = cluster.ask(from, &["CLUSTER", "KEYSLOT", &key]);
        let set = |port: u16, words: &[&str]| {
            let answer = cluster.ask(port, &[&["CLUSTER", "SETSLOT", &slot], words].concat());
            assert_eq!(answer, "OK", "{words:?}");
        };
        set(to, &["IMPORTING", &from_id]);
        set(from, &["MIGRATING", &to_id]);
        let (address, port) = (Cluster::address(), to.to_string());
        let moved = cluster.ask(from, &["MIGRATE", &address, &port, &key, "0", "1000"]);
        assert_eq!(moved, "OK");
        // The old server sends each call to the new one.
        wait(4.0);
        let asked = traffic.seconds(4);
        assert_eq!(cluster.ask(from, &["CLUSTER", "COUNTKEYSINSLOT", &slot]), "0");
        for port in [to, from] {
            set(port, &["NODE", &to_id]);
        }
        wait(4.0);
        let after = traffic.seconds(4);
        println!("a slot that moves: {asked:.2?} of the limit while it moves, {after:.2?} afterwards");
        drop(traffic);
        assert_eq!(cluster.port_of(&key), to);
        for seconds in [&asked[2..], &after[2..]] {
            one_limit(seconds, 0.1);
        }
        for daemon in daemons {
            daemon.process.signal(Signal::TERM);
            let mut lines = Vec::new();
            while lines.last().is_none_or(|line: &String| !line.is_empty()) {
                lines.push(daemon.line());
            }
            let failures =
                lines.iter().filter(|line| line.contains("shares:") || line.contains("only for some")).count();
            assert!(failures <= 1, "{lines:?}");
            let _ = daemon.process.wait();
        }
    });
}
