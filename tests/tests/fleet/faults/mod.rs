//! Faults of the engine, of the way to it, and of daemons. Each test prints what passed, and when hosts shared again.
//! `cargo xtask faults` runs all of them.

mod bans;
mod cluster;
mod gossip;
mod one_way;
mod sentinels;
mod shards;
mod weights;

use std::{ops::RangeInclusive, time::Duration};

use ratelimit_common::fleet::share::{Limit, Report, Terms};
use ratelimit_fleet::{
    address::{Address, Kind},
    engine::{Engine, Message},
    key::Key,
};
use ratelimit_tests::{Arrivals, Hosts, Ratelimit, Redis, scaled, wait_until};
use rustix::process::Signal;

use crate::stage::{RATE, SOURCE, Traffic, alone, block_on, one_limit, outage, wait, with_daemons};

/// Seconds of a fault.
const FAULT: f64 = 4.0;
/// Hosts of each fleet.
const COUNT: usize = 3;

/// Breaks something under traffic and mends it. Before the fault, hosts share. Some seconds after it has begun, they admit
/// a part of the limit that is in `during`, and two seconds after its end they share again.
///
/// `lost` is the number of hosts that lose the engine. They are the first.
fn fault<T>(
    name: &str,
    lost: usize,
    during: RangeInclusive<f64>,
    break_it: impl FnOnce(&Hosts, Redis) -> T,
    mend: impl FnOnce(&Hosts, T) -> Redis,
) {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    let redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |daemons| {
        for daemon in daemons.iter_mut() {
            let line = daemon.line();
            assert!(line.ends_with("answers: limits are shared"), "{line}");
        }
        let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
        wait(3.0);
        traffic.settled(name, 1, &(0.85..=1.15));
        let broken = break_it(&hosts, redis);
        wait(FAULT - 2.0);
        let during = traffic.settled(name, 2, &during);
        let begin = Arrivals::now();
        let redis = mend(&hosts, broken);
        wait(4.0);
        let after = traffic.settled(name, 2, &(0.9..=1.1));
        let recovered = traffic.shared_after(begin, (Arrivals::now() - begin).as_secs() as u32);
        println!("{name}: {during:.2} of the limit during it, shared again after {recovered:.1} s, then {after:.2}");
        drop(traffic);
        for daemon in daemons.iter_mut().take(lost) {
            let lines = outage(daemon);
            let is_told_once = lines[0].contains("local limits apply") && lines[1].contains("answers again");
            assert!(is_told_once, "{name}: {lines:?}");
        }
        drop(redis);
        let most = scaled(Duration::from_secs(2)).as_secs_f64();
        assert!(recovered <= most, "{name}: shared after {recovered} s of {most}");
    });
}

/// The limits of all hosts apply during the fault, and the hosts share soon afterwards.
fn local_then_shared<T>(name: &str, break_it: impl FnOnce(&Hosts, Redis) -> T, mend: impl FnOnce(&Hosts, T) -> Redis) {
    fault(name, COUNT, 2.8..=3.1, break_it, mend);
}

#[test]
fn a_server_that_is_stopped_and_goes_on() {
    let stop = |_: &Hosts, redis: Redis| {
        redis.process.signal(Signal::STOP);
        redis
    };
    let go_on = |_: &Hosts, redis: Redis| {
        redis.process.signal(Signal::CONT);
        redis
    };
    local_then_shared("a stopped server", stop, go_on);
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_server_that_is_killed_and_comes_back_empty() {
    local_then_shared("a killed server", |_, redis| drop(redis), |hosts, ()| hosts.redis(&[]));
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_server_that_loses_records_and_scripts() {
    let lose = |hosts: &Hosts, redis: Redis| {
        for words in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"]] {
            ask(hosts, words);
        }
        redis
    };
    fault("lost records and scripts", 0, 0.9..=1.1, lose, |_, redis| redis);
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_server_that_only_reads() {
    let be_replica = |hosts: &Hosts, redis: Redis| {
        ask(hosts, &["REPLICAOF", "127.0.0.1", "1"]);
        redis
    };
    let be_master = |hosts: &Hosts, redis: Redis| {
        ask(hosts, &["REPLICAOF", "NO", "ONE"]);
        redis
    };
    local_then_shared("a server that only reads", be_replica, be_master);
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_server_without_memory() {
    let set = |bytes: &'static str| {
        move |hosts: &Hosts, redis: Redis| {
            ask(hosts, &["CONFIG", "SET", "maxmemory", bytes]);
            redis
        }
    };
    local_then_shared("a server without memory", set("1"), set("0"));
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_server_that_demands_another_password() {
    let demand = |hosts: &Hosts, redis: Redis| {
        ask(hosts, &["ACL", "SETUSER", "other", "on", "nopass", "~*", "+@all"]);
        ask(hosts, &["ACL", "SETUSER", "default", "resetpass", ">secret"]);
        // The server asks connections that exist already for nothing.
        ask_as(hosts, "other:other@", &["CLIENT", "KILL", "TYPE", "normal"]);
        redis
    };
    let forgive = |hosts: &Hosts, redis: Redis| {
        ask_as(hosts, "other:other@", &["ACL", "SETUSER", "default", "nopass"]);
        redis
    };
    local_then_shared("another password", demand, forgive);
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn hosts_that_are_cut_off_from_the_server() {
    let cut = |is_cut: bool| {
        move |hosts: &Hosts, redis: Redis| {
            (0..COUNT).for_each(|host| hosts.cut(host, is_cut));
            redis
        }
    };
    local_then_shared("all hosts cut off", cut(true), cut(false));
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn one_host_that_is_cut_off_admits_its_own_limit_beside_the_others() {
    let cut = |is_cut: bool| {
        move |hosts: &Hosts, redis: Redis| {
            hosts.cut(0, is_cut);
            redis
        }
    };
    fault("one host cut off", 1, 1.85..=2.1, cut(true), cut(false));
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_daemon_that_is_killed_leaves_the_limit_of_its_host() {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |daemons| {
        let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
        wait(4.0);
        let before = traffic.seconds_of(0, 2);
        daemons[0].process.signal(Signal::KILL);
        wait(3.0);
        let after = traffic.seconds_of(0, 2);
        println!("a killed daemon: its host admits {before:?} of the limit before, and {after:?} afterwards");
        assert!(before.iter().all(|rate| (0.25..=0.45).contains(rate)), "{before:?}");
        one_limit(&after, 0.02);
    });
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn without_the_engine_each_host_admits_its_part_if_the_operator_wants_it() {
    for on_loss in ["share", "hold"] {
        let _alone = alone();
        let hosts = Hosts::new(COUNT);
        let redis = hosts.redis(&[]);
        with_daemons(&hosts, &format!("on-loss = \"{on_loss}\"\n"), |daemons| {
            for daemon in daemons.iter_mut() {
                let line = daemon.line();
                assert!(line.ends_with("answers: limits are shared"), "{line}");
            }
            let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
            wait(4.0);
            redis.process.signal(Signal::STOP);
            wait(6.0);
            let seconds = traffic.seconds(4);
            println!("on-loss = {on_loss}: {seconds:?} of the limit");
            assert!(seconds.iter().all(|rate| (0.8..=1.2).contains(rate)), "{on_loss}: {seconds:?}");
        });
    }
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn an_engine_that_invents_hosts_and_falls_silent_leaves_each_host_its_least_share() {
    let _alone = alone();
    let hosts = Hosts::new(1);
    let redis = hosts.redis(&[]);
    with_daemons(&hosts, "min-share = 0.5\non-loss = \"share\"\n", |_| {
        let traffic = Traffic::begin(&hosts, &[3 * RATE]);
        let invent = "for i = 1, 100000 do redis.call('ZADD', KEYS[1], 9e15, 'h' .. i) end";
        ask(&hosts, &["EVAL", invent, "1", "{rl:m}:heard"]);
        let ratelimit = Ratelimit::new(&hosts.hosts[0]);
        wait_until("the host hears of the others", || {
            ratelimit.run("fleet status -j").stdout.contains("\"hosts\":100001")
        });
        redis.process.signal(Signal::STOP);
        wait(6.0);
        let seconds = traffic.seconds(3);
        println!("invented hosts: {seconds:?} of the limit");
        assert!(seconds.iter().all(|rate| (0.45..=0.6).contains(rate)), "{seconds:?}");
    });
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_host_that_lies_slows_the_source_on_others_to_their_least_share_only() {
    let _alone = alone();
    let hosts = Hosts::new(1);
    let redis = hosts.redis(&[]);
    with_daemons(&hosts, "min-share = 0.1\n", |_| {
        let traffic = Traffic::begin(&hosts, &[3 * RATE]);
        wait(3.0);
        // A host that was never there claims a thousand times the demand, in each period.
        let claims = Report { offered: 1e9, admitted: 1e9, own: 1e9, weight: 100.0, record: 0 };
        let limit = Limit { rate: RATE as f64, burst: 100.0 };
        let message = Message { key: Key::of(&SOURCE.to_string(), &limit), limit, report: claims };
        hosts.server(|| {
            block_on(async {
                let url = [format!("redis://127.0.0.1:{}", Redis::PORT)];
                let address = Address::new(&url, Kind::Single, None, None).unwrap();
                let engine = Engine::connect(&address, Duration::from_secs(1)).await.unwrap();
                for _ in 0..40 {
                    engine.call(&Terms::default(), std::slice::from_ref(&message)).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        });
        let seconds = traffic.seconds(2);
        println!("a host that lies: {seconds:?} of the limit for the other one");
        assert!(seconds.iter().all(|rate| (0.09..=0.3).contains(rate)), "{seconds:?}");
    });
    drop(redis);
}

#[test]
#[ignore = "slow: cargo xtask faults"]
fn hosts_with_different_limits_share_none_and_are_named() {
    let _alone = alone();
    let hosts = Hosts::new(2);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |_| {
        let other = Ratelimit::new(&hosts.hosts[1]);
        other.ok("limit set default --packets 2000/s --burst 100");
        let traffic = Traffic::begin(&hosts, &[5 * RATE; 2]);
        wait(5.0);
        let seconds = traffic.seconds(2);
        println!("different limits: {seconds:?}");
        assert!(seconds.iter().all(|rate| (2.9..=3.1).contains(rate)), "{seconds:?}");
        let text = Ratelimit::new(&hosts.hosts[0]).ok("fleet status");
        assert!(text.contains("warning: hosts with another default limit share none with this host: host1"), "{text}");
    });
}

/// Runs a command on the server.
pub(crate) fn ask(hosts: &Hosts, words: &[&str]) {
    ask_as(hosts, "", words);
}

fn ask_as(hosts: &Hosts, user: &str, words: &[&str]) {
    let outcome = hosts.server(|| {
        block_on(async {
            let client = redis::Client::open(format!("redis://{user}127.0.0.1:{}", Redis::PORT))?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut connection).await
        })
    });
    // A server that ends this connection has done what was asked.
    outcome.or_else(|error| if words[0] == "CLIENT" { Ok(()) } else { Err(error) }).unwrap();
}
