//! Daemons of several hosts that share a limit through a real Redis server.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Arrivals, Daemon, Flood, Folder, Frame, Hosts, Ratelimit, Running};

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);
const PORT: u16 = 9;
/// Packets per second of the limit.
const RATE: u64 = 1_000;

/// Returns a file that joins the fleet.
fn file(number: usize, more: &str) -> String {
    format!(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"{RATE}/s\"\nburst = 100\n\
         [fleet]\nengine = \"{}\"\nname = \"host{number}\"\n{more}",
        Hosts::url(number)
    )
}

/// Runs `work` while each host has a daemon with its file, and checks that nothing is left behind.
fn with_daemons<T>(hosts: &Hosts, more: &str, work: impl FnOnce(&mut [Daemon]) -> T) -> T {
    let folders: Vec<_> = hosts.hosts.iter().map(|_| Folder::new()).collect();
    let all: Vec<_> = hosts.hosts.iter().map(Ratelimit::new).collect();
    let mut daemons = Vec::new();
    for (number, ((host, ratelimit), folder)) in hosts.hosts.iter().zip(&all).zip(&folders).enumerate() {
        folder.write(&file(number, more));
        let mut daemon = Daemon::start(host, ratelimit, &folder.file());
        let line = daemon.line();
        assert!(line.contains("in force"), "{line}");
        daemons.push(daemon);
    }
    let result = work(&mut daemons);
    daemons.into_iter().for_each(Daemon::end);
    all.iter().for_each(|ratelimit| {
        ratelimit.ok("detach --all");
    });
    result
}

/// Offers each host packets of the source, and counts what arrives.
struct Traffic {
    floods: Vec<Running>,
    arrivals: Vec<Arrivals>,
}

impl Traffic {
    /// Offers so many packets per second to each host; none to one with 0.
    fn begin(hosts: &Hosts, rates: &[u64]) -> Self {
        let arrivals = hosts.hosts.iter().map(|host| Arrivals::begin(host, SOURCE, PORT)).collect();
        let floods = hosts.hosts.iter().zip(rates).filter(|(_, rate)| **rate > 0);
        let flood = |(host, rate): (_, &u64)| Flood::of(Frame::udp(SOURCE, PORT)).pace(*rate).start(host);
        Self { floods: floods.map(flood).collect(), arrivals }
    }

    /// Returns the packets of all hosts that arrived in each of the last so many seconds, by the rate of the limit.
    fn seconds(&self, count: u32) -> Vec<f64> {
        // The receivers have counted what came before.
        let end = Arrivals::now();
        thread::sleep(Duration::from_millis(100));
        let second = |number: u32| {
            let begin = end - Duration::from_secs(u64::from(count - number));
            let all = self.arrivals.iter().map(|host| host.between(begin, begin + Duration::from_secs(1)));
            all.sum::<usize>() as f64 / RATE as f64
        };
        (0..count).map(second).collect()
    }

    fn sent(&self) -> u64 {
        self.floods.iter().map(Running::sent).sum()
    }
}

fn wait(seconds: u64) {
    thread::sleep(Duration::from_secs(seconds));
}

#[test]
fn three_hosts_admit_one_limit_together() {
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |daemons| {
        let traffic = Traffic::begin(&hosts, &[10 * RATE; 3]);
        wait(12);
        let seconds = traffic.seconds(12);
        println!("{seconds:?}");
        assert!(seconds[2..].iter().all(|rate| (0.95..=1.05).contains(rate)), "{seconds:?}");
        for daemon in daemons {
            let line = daemon.line();
            assert!(line.ends_with("answers: limits are shared"), "{line}");
        }
    });
}

#[test]
fn a_source_below_the_limit_in_all_loses_nothing() {
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |_| {
        let traffic = Traffic::begin(&hosts, &[3 * RATE / 10; 3]);
        wait(8);
        let seconds = traffic.seconds(8);
        let (sent, arrived): (u64, f64) = (traffic.sent(), seconds.iter().sum());
        println!("{seconds:?} {sent}");
        let dropped = hosts.hosts.iter().map(|host| {
            let reasons = Ratelimit::new(host).json("status")["reasons"].clone();
            ["over-packets", "over-share"]
                .map(|reason| reasons[reason]["packets"].as_u64().unwrap())
                .iter()
                .sum::<u64>()
        });
        assert_eq!((dropped.sum::<u64>(), arrived > 7.0), (0, true));
    });
}

#[test]
fn a_source_on_one_host_alone_gets_the_whole_limit() {
    let hosts = Hosts::new(3);
    let _redis = hosts.redis(&[]);
    with_daemons(&hosts, "", |_| {
        let traffic = Traffic::begin(&hosts, &[10 * RATE, 0, 0]);
        wait(8);
        let seconds = traffic.seconds(8);
        println!("{seconds:?}");
        assert!(seconds[2..].iter().all(|rate| (0.99..=1.01).contains(rate)), "{seconds:?}");
    });
}

#[test]
fn an_engine_that_is_not_there_at_the_start_is_no_failure() {
    let hosts = Hosts::new(2);
    with_daemons(&hosts, "", |daemons| {
        for daemon in daemons.iter_mut() {
            let line = daemon.line();
            assert!(line.contains("local limits apply until it answers"), "{line}");
        }
        let traffic = Traffic::begin(&hosts, &[10 * RATE; 2]);
        wait(3);
        let local = traffic.seconds(2);
        assert!(local.iter().all(|rate| (1.9..=2.1).contains(rate)), "{local:?}");
        let begin = Instant::now();
        let _redis = hosts.redis(&[]);
        for daemon in daemons {
            let line = daemon.line();
            assert!(line.contains("answers again"), "{line}");
        }
        println!("recovered after {:?}", begin.elapsed());
        wait(5);
        let shared = traffic.seconds(3);
        assert!(shared.iter().all(|rate| (0.95..=1.05).contains(rate)), "{shared:?}");
    });
}
