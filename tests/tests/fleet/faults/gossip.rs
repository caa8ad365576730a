//! Faults of hosts without a server, and what many sources cost them.

use std::{net::UdpSocket, time::Duration};

use ratelimit_common::fleet::share::{Limit, Report, Terms};
use ratelimit_fleet::{
    engine::Message,
    gossip::{mesh::Mesh, settings::Settings},
    key::Key,
};
use ratelimit_protocol::fleet::About;
use ratelimit_tests::{Arrivals, Hosts, Ratelimit, Sandbox};
use rustix::{process::Signal, time::ClockId};

use super::COUNT;
use crate::{
    gossip::{shared, with_gossip},
    stage::{RATE, Traffic, alone, block_on, one_limit, outage, wait},
};

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_host_that_is_cut_off_from_the_others_and_comes_back() {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    with_gossip(&hosts, "", |daemons| {
        shared(daemons);
        let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
        wait(5.0);
        hosts.cut(0, true);
        wait(10.0);
        let during = traffic.seconds(4);
        let begin = Arrivals::now();
        hosts.cut(0, false);
        wait(8.0);
        let (after, recovered) = (traffic.seconds(3), traffic.shared_after(begin, 8));
        println!("gossip, one host cut off: {during:?}, shared again after {recovered:.1} s, then {after:?}");
        assert!(during.iter().all(|rate| (1.85..=2.1).contains(rate)), "{during:?}");
        one_limit(&after, 0.1);
        let lines = outage(&mut daemons[0]);
        assert!(lines[0].contains("local limits apply") && lines[1].contains("answers again"), "{lines:?}");
    });
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn the_others_get_the_part_of_a_daemon_that_is_killed() {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    with_gossip(&hosts, "", |daemons| {
        shared(daemons);
        let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
        wait(6.0);
        daemons[0].process.signal(Signal::KILL);
        wait(6.0);
        let of = |host| traffic.seconds_of(host, 2);
        println!("gossip, a killed daemon: its host admits {:?}, the others {:?} and {:?}", of(0), of(1), of(2));
        one_limit(&of(0), 0.02);
        for host in [1, 2] {
            assert!(of(host).iter().all(|rate| (0.42..=0.58).contains(rate)), "{host}: {:?}", of(host));
        }
    });
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn hosts_cut_off_from_each_other_admit_equal_parts_if_the_operator_wants_it() {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    with_gossip(&hosts, "on-loss = \"share\"\n", |daemons| {
        shared(daemons);
        let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
        wait(5.0);
        (0..COUNT).for_each(|host| hosts.cut(host, true));
        wait(12.0);
        let seconds = traffic.seconds(12);
        println!("gossip, on-loss = share: {seconds:?} of the limit");
        one_limit(&seconds[6..], 0.05);
    });
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn garbage_from_strangers_changes_no_share() {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    with_gossip(&hosts, "", |daemons| {
        shared(daemons);
        let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
        wait(4.0);
        let sent = hosts.server(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let begin = std::time::Instant::now();
            let mut sent = 0_u32;
            while begin.elapsed() < Duration::from_secs(5) {
                for host in 0..COUNT {
                    let mut garbage = vec![sent as u8; 1_200];
                    // A greeting, so that its seal is checked.
                    garbage[..5].copy_from_slice(b"rlg1\0");
                    garbage[13..21].fill(0);
                    garbage[33..41].copy_from_slice(&1_f64.to_le_bytes());
                    let _ = socket.send_to(&garbage, (Hosts::address(host), 7947));
                    sent += 1;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            sent
        });
        let seconds = traffic.seconds(3);
        println!("gossip, {sent} datagrams of garbage: {seconds:?} of the limit");
        one_limit(&seconds, 0.1);
        let status = Ratelimit::new(&hosts.hosts[0]).ok("fleet status");
        assert!(status.starts_with("engine gossip (2 of 2 peers alive)"), "{status}");
    });
}

/// Prints what three hosts cost that report so many busy sources, in one thread.
#[test]
#[ignore = "slow: cargo xtask faults"]
fn the_cost_of_many_sources() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    sandbox.peer(|| {
        for (hosts, count, period) in
            [(3, 1_000, 0.2), (3, 10_000, 0.2), (10, 1_000, 0.2), (30, 300, 0.2), (100, 300, 2.0)]
        {
            block_on(cost(hosts, count, period));
        }
    });
}

async fn cost(hosts: u16, sources: usize, period: f64) {
    const SECONDS: f64 = 5.0;
    let address = |host: u16| format!("127.0.0.1:{}", 8_000 + host);
    let all: Vec<_> = (0..hosts).map(address).collect();
    let open = |host| Mesh::open(&Settings::new(Some(&address(host)), &all, Some("secret".to_owned())).unwrap());
    let meshes: Vec<_> = (0..hosts).map(|host| open(host).unwrap()).collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    for (host, mesh) in meshes.iter().enumerate() {
        let found = mesh.beat(&format!("host{host}"), &About { weight: 1.0, ..About::default() }).unwrap();
        assert_eq!(found.count, usize::from(hosts));
    }
    let (terms, limit) = (Terms { period, ..Terms::default() }, Limit { rate: 1_000.0, burst: 100.0 });
    // Each host is offered three times the limit, and admits its part.
    let admitted = limit.rate * terms.period / f64::from(hosts);
    let offered = 3.0 * limit.rate * terms.period;
    let report = Report { offered, admitted, own: 3.53 * offered, weight: 1.0, record: 0 };
    let source = |number: usize| format!("10.{}.{}.{}", number >> 16, number >> 8 & 0xff, number & 0xff);
    let messages: Vec<_> =
        (0..sources).map(|number| Message { key: Key::of(&source(number), &limit), limit, report }).collect();
    let mut messages = vec![messages; usize::from(hosts)];
    let (cpu, bytes, begin) = (cpu(), received(), std::time::Instant::now());
    let mut turn = tokio::time::interval(Duration::from_secs_f64(terms.period) / u32::from(hosts));
    let mut shares = Vec::new();
    for _ in 0..(SECONDS / period) as u32 + 1 {
        for (mesh, messages) in meshes.iter().zip(&mut messages) {
            turn.tick().await;
            let (answers, failure) = mesh.report(&terms, messages);
            assert!(failure.is_none(), "{failure:?}");
            let answers = answers.into_iter().map(Option::unwrap);
            shares = messages
                .iter_mut()
                .zip(answers)
                .map(|(message, answer)| {
                    message.report.record = answer.record;
                    answer.share.unwrap_or(1.0)
                })
                .collect();
        }
    }
    let (cpu, bytes) = (self::cpu() - cpu, received() - bytes);
    let seconds = begin.elapsed().as_secs_f64() * f64::from(hosts);
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    println!(
        "gossip, {hosts} hosts with {sources} sources each every {period} s: a host receives {:.2} MB/s, takes {:.1} % of a CPU",
        bytes / seconds / 1e6,
        cpu / seconds * 100.0
    );
    assert_eq!(lost(), 0, "datagrams did not fit into the buffer");
    assert!((1.0 / f64::from(hosts)..1.0).contains(&mean), "{mean}");
}

/// Returns the CPU time of this thread, in seconds.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the bytes that the loopback interface has received.
fn received() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let lo = text.lines().find_map(|line| line.trim().strip_prefix("lo:")).unwrap();
    lo.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns how many datagrams did not fit into buffers.
fn lost() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(str::split_whitespace);
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    names.zip(values).find(|(name, _)| *name == "RcvbufErrors").unwrap().1.parse().unwrap()
}
