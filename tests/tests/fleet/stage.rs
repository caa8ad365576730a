//! Daemons of several hosts with one engine, and traffic of one source to all of them.

use std::{
    net::{IpAddr, Ipv4Addr},
    ops::RangeInclusive,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Arrivals, Daemon, Flood, Folder, Frame, Hosts, Ratelimit, Running, scaled, wait_until};

pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);
const PORT: u16 = 9;
/// Packets per second of the limit.
pub(crate) const RATE: u64 = 1_000;

/// Takes the lock of tests that measure rates, since a flood of several hosts needs the CPUs. Others run beside them.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A failed test leaves no state behind.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the first line of an outage, and the line that ends it. A daemon can tell further reasons between them, such as
/// a connection that is refused after one that has ended.
pub(crate) fn outage(daemon: &mut Daemon) -> [String; 2] {
    let first = daemon.line();
    loop {
        let line = daemon.line();
        if !line.contains(" still does not answer: ") {
            return [first, line];
        }
    }
}

/// Returns a file that joins the fleet with these keys.
pub(crate) fn file(number: usize, keys: &str) -> String {
    format!(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"{RATE}/s\"\nburst = 100\n\
         [fleet]\nname = \"host{number}\"\n{keys}"
    )
}

/// Returns the key that names the one server of a host, and more keys.
pub(crate) fn at_the_server(number: usize, more: &str) -> String {
    format!("engine = \"{}\"\n{more}", Hosts::url(number))
}

/// Runs `work` while each host has a daemon that uses the one server. Nothing is left behind.
pub(crate) fn with_daemons<T>(hosts: &Hosts, more: &str, work: impl FnOnce(&mut [Daemon]) -> T) -> T {
    with_daemons_by(hosts, |number| at_the_server(number, more), work)
}

/// Runs `work` while each host has a daemon with these keys of its fleet. Nothing is left behind.
pub(crate) fn with_daemons_by<T>(
    hosts: &Hosts,
    keys: impl Fn(usize) -> String,
    work: impl FnOnce(&mut [Daemon]) -> T,
) -> T {
    let folders: Vec<_> = hosts.hosts.iter().map(|_| Folder::new()).collect();
    let all: Vec<_> = hosts.hosts.iter().map(Ratelimit::new).collect();
    let mut daemons = Vec::new();
    for (number, ((host, ratelimit), folder)) in hosts.hosts.iter().zip(&all).zip(&folders).enumerate() {
        folder.write(&file(number, &keys(number)));
        let mut daemon = Daemon::start(host, ratelimit, &folder.file());
        let line = daemon.line();
        assert!(line.contains("in force"), "{line}");
        daemons.push(daemon);
    }
    let result = work(&mut daemons);
    // A test may have killed one.
    for mut daemon in daemons {
        if daemon.process.child.try_wait().unwrap().is_none() {
            daemon.end();
        }
    }
    all.iter().for_each(|ratelimit| {
        ratelimit.ok("detach --all");
    });
    result
}

/// Packets of the source to each host, and what arrives.
pub(crate) struct Traffic {
    floods: Vec<Running>,
    arrivals: Vec<Arrivals>,
}

impl Traffic {
    /// Offers so many packets per second to each host, and nothing to one with 0.
    pub(crate) fn begin(hosts: &Hosts, rates: &[u64]) -> Self {
        Self::from(SOURCE.into(), hosts, rates)
    }

    /// The same from another source.
    pub(crate) fn from(source: IpAddr, hosts: &Hosts, rates: &[u64]) -> Self {
        Self::to(PORT, source, hosts, rates)
    }

    /// The same to another port. Only one traffic can use a port.
    pub(crate) fn to(port: u16, source: IpAddr, hosts: &Hosts, rates: &[u64]) -> Self {
        let arrivals = hosts.hosts.iter().map(|host| Arrivals::begin(host, source, port)).collect();
        let floods = hosts.hosts.iter().zip(rates).filter(|(_, rate)| **rate > 0);
        let flood = |(host, rate): (_, &u64)| Flood::of(Frame::udp(source, port)).pace(*rate).start(host);
        Self { floods: floods.map(flood).collect(), arrivals }
    }

    /// Returns what all hosts admitted in these seconds since 1970, as a part of the limit's rate.
    pub(crate) fn rate(&self, begin: Duration, end: Duration) -> f64 {
        let packets: usize = self.arrivals.iter().map(|host| host.between(begin, end)).sum();
        packets as f64 / RATE as f64 / (end - begin).as_secs_f64()
    }

    /// Waits until the second after the first packet has passed on each host. Returns when that was.
    pub(crate) fn first_seconds(&self) -> Vec<[Duration; 2]> {
        wait_until("packets on each host", || self.arrivals.iter().all(|host| host.first().is_some()));
        let first = self.arrivals.iter().filter_map(Arrivals::first);
        let each: Vec<_> = first.map(|first| [first, first + seconds(1)]).collect();
        wait_until("a second on each host", || each.iter().all(|[_, end]| *end < Arrivals::now()));
        counted();
        each
    }

    /// Returns what a host admitted in this time, in seconds of the limit's rate.
    pub(crate) fn of_host(&self, host: usize, [begin, end]: [Duration; 2]) -> f64 {
        self.arrivals[host].between(begin, end) as f64 / RATE as f64
    }

    /// Returns the rates of the last so many seconds.
    pub(crate) fn seconds(&self, count: u32) -> Vec<f64> {
        let end = counted();
        (0..count).rev().map(|before| self.rate(end - seconds(before + 1), end - seconds(before))).collect()
    }

    /// Returns the same of one host.
    pub(crate) fn seconds_of(&self, host: usize, count: u32) -> Vec<f64> {
        let end = counted();
        let packets = |before: u32| self.arrivals[host].between(end - seconds(before + 1), end - seconds(before));
        (0..count).rev().map(|before| packets(before) as f64 / RATE as f64).collect()
    }

    /// Waits until the mean of the last so many seconds is within this range, and so is the mean of as many seconds before
    /// them. Returns the last one. A busy machine may take longer than ten seconds.
    pub(crate) fn settled(&self, what: &str, count: u32, range: &RangeInclusive<f64>) -> f64 {
        let (begin, most) = (Instant::now(), scaled(Duration::from_secs(10)));
        loop {
            let rates = self.seconds(2 * count);
            let means = rates.chunks(count as usize).map(|rates| rates.iter().sum::<f64>() / f64::from(count));
            let means: Vec<_> = means.collect();
            if means.iter().all(|mean| range.contains(mean)) {
                return means[1];
            }
            assert!(
                begin.elapsed() < most,
                "{what}: {range:?} of the limit is expected within {most:?}, not {rates:?}"
            );
        }
    }

    /// Returns the seconds from a moment on after which no fifth of a second had much more than the limit. The traffic
    /// has lasted for so many seconds since then.
    pub(crate) fn shared_after(&self, begin: Duration, lasted: u32) -> f64 {
        let fifth = Duration::from_millis(200);
        let fifths = (0..5 * lasted).map(|number| self.rate(begin + number * fifth, begin + (number + 1) * fifth));
        let last = fifths.enumerate().rfind(|(_, rate)| *rate > 1.6);
        last.map_or(0.0, |(number, _)| (number + 1) as f64 * fifth.as_secs_f64())
    }

    /// Returns the packets that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.floods.iter().map(Running::sent).sum()
    }
}

/// Returns the time up to which the receivers have counted.
fn counted() -> Duration {
    let now = Arrivals::now();
    thread::sleep(Duration::from_millis(100));
    now
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(u64::from(count))
}

/// Returns texts as a list in a file.
pub(crate) fn list(texts: &[String]) -> String {
    texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ")
}

/// Checks that all hosts together admitted one limit in these seconds: its rate on average, within this part of it, and in
/// no span of seconds more than that and twice its burst. A busy machine delays what hosts tell each other, and what is lost
/// or too much in one second is made up for in the next.
#[track_caller]
pub(crate) fn one_limit(seconds: &[f64], within: f64) {
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    assert!((mean - 1.0).abs() <= within, "{mean}: {seconds:?}");
    for length in 1..=seconds.len() {
        let most = length as f64 * (1.0 + within) + 0.2;
        assert!(seconds.windows(length).all(|span| span.iter().sum::<f64>() <= most), "{length}: {seconds:?}");
    }
}

pub(crate) fn wait(seconds: f64) {
    thread::sleep(Duration::from_secs_f64(seconds));
}

/// Runs `work` on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
