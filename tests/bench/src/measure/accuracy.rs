//! The admitted rate beside the configured one, with real frames on one CPU and on two. A UDP counter of the victim
//! counts what a limiter admits. The limiter's own counter must tell the same number at the end.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    str, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use ratelimit_tests::{Flood, Frame, Running, Sandbox, Sources};

use crate::{
    configurations::{DEFAULT, PORT},
    measure::{
        Effort,
        limiters::{Limiter, Terms},
    },
    results::Accuracy,
    table::{Axis, Row, Table},
};

/// A limiter with its name as in the table. With two CPUs, `hashlimit` admits too much of one source. Its source code reads
/// the tick before it locks a source. A newer tick of another CPU would then make the time between them negative.
const LIMITERS: [(&str, Limiter); 3] =
    [("ours", Limiter::Ours(&DEFAULT)), ("nftables", Limiter::Nftables), ("hashlimit", Limiter::Iptables)];

/// Packets per second of each source, and the number of sources.
type Limit = (u64, u32);

/// In the order of the table.
const LIMITS: [Limit; 8] =
    [(1, 1), (1, 100), (1, 10_000), (100, 1), (100, 10_000), (10_000, 1), (10_000, 100), (1_000_000, 1)];

/// Numbers of CPUs that send and receive at once.
const CPUS: [usize; 2] = [1, 2];

/// Time over which a counter is averaged: a whole number of packets at each rate, so their phase does not matter.
const AVERAGED: Duration = Duration::from_secs(1);
/// Time between two readings. A packet counts in an average from the middle between two of them on.
const STEP: Duration = Duration::from_millis(1);
/// Multiple of the limit that must be offered. With less, chance can leave a source without packets for its limit.
const ENOUGH: f64 = 2.0;
/// With less than this multiple, the figure would be about the traffic, and the table leaves it out.
const LEAST: f64 = 1.05;

/// How long a case takes.
struct Times {
    /// Uses up the bursts, and creates all buckets.
    warm_up: Duration,
    /// Time between the averages of a slow limit of one packet per second, and of all others.
    slow: Duration,
    fast: Duration,
    limits: &'static [Limit],
}

const FULL: Times = Times {
    warm_up: Duration::from_secs(2),
    slow: Duration::from_secs(5),
    fast: Duration::from_secs(2),
    limits: &LIMITS,
};
const QUICK: Times = Times {
    warm_up: Duration::from_millis(500),
    slow: Duration::from_secs(1),
    fast: Duration::from_millis(500),
    limits: &[(1, 1), (10_000, 100), (1_000_000, 1)],
};

/// What has happened until an instant.
#[derive(Clone, Copy)]
struct Reading {
    seconds: f64,
    admitted: f64,
    offered: f64,
}

/// Measures all cases, and prints which limiters are missing.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Accuracy>> {
    let sandbox = Sandbox::new();
    let times = if effort.has_few_limits { QUICK } else { FULL };
    let most = thread::available_parallelism()?.get();
    let mut results = Vec::new();
    for (name, limiter) in LIMITERS {
        if !limiter.is_here(&sandbox) {
            continue;
        }
        eprintln!("accuracy of {name}");
        for &(per_second, sources) in times.limits {
            for cpus in CPUS.into_iter().filter(|cpus| *cpus <= most) {
                let case = Case { name, limiter, per_second, sources, cpus };
                results.push(case.measure(&sandbox, &times)?);
            }
        }
    }
    Ok(results)
}

/// One limiter with one limit and one kind of traffic.
struct Case {
    name: &'static str,
    limiter: Limiter,
    per_second: u64,
    sources: u32,
    cpus: usize,
}

impl Case {
    fn measure(&self, sandbox: &Sandbox, times: &Times) -> Result<Accuracy> {
        let receiver = Receiver::of(sandbox)?;
        let received = receiver.received()?;
        // A tenth of a second's worth outlasts a moment in which no packet is sent.
        let terms = Terms::Rate { per_second: self.per_second, burst: (self.per_second / 10).max(4) };
        let standing = self.limiter.set_up(sandbox, terms, Sources::Count(self.sources))?;
        let flood = Flood::of(Frame::udp([10, 9, 1, 0], PORT)).sources(self.sources).in_random_order();
        let floods: Vec<_> = (0..self.cpus).map(|cpu| flood.clone().on_cpu(cpu).start(sandbox)).collect();
        thread::sleep(times.warm_up);
        let epoch = Instant::now();
        let begin = average(epoch, &receiver, &floods)?;
        let time = if self.per_second == 1 { times.slow } else { times.fast };
        thread::sleep(time.saturating_sub(AVERAGED));
        let end = average(epoch, &receiver, &floods)?;
        let sent: u64 = floods.into_iter().map(Running::stop).sum();

        let (within, over) = standing.verdicts()?;
        let (arrived, received, name) = (within + over, receiver.received()? - received, self.name);
        ensure!(arrived.abs_diff(sent) <= sent / 1_000, "{name}: of {sent} packets, {arrived} arrived");
        let seconds = end.seconds - begin.seconds;
        Ok(Accuracy {
            limiter: name,
            per_second: self.per_second,
            sources: self.sources,
            cpus: self.cpus,
            admitted: (end.admitted - begin.admitted) / seconds,
            offered: (end.offered - begin.offered) / seconds,
            counted: within,
            received,
        })
    }
}

/// The victim's UDP: it counts packets to a port without a socket.
struct Receiver(File);

impl Receiver {
    fn of(sandbox: &Sandbox) -> Result<Self> {
        // The file belongs to the network namespace of the thread that opens it.
        Ok(Self(sandbox.victim(|| File::open("/proc/thread-self/net/snmp"))?))
    }

    /// Returns the number of packets that no socket took.
    fn received(&self) -> Result<u64> {
        let mut text = [0; 4096];
        let length = self.0.read_at(&mut text, 0)?;
        let mut lines = str::from_utf8(&text[..length])?.lines().filter(|line| line.starts_with("Udp:"));
        let [names, values] = [lines.next(), lines.next()].map(Option::unwrap_or_default).map(str::split_whitespace);
        let value = names.zip(values).find(|(name, _)| *name == "NoPorts");
        Ok(value.context("the kernel does not count UDP without a socket")?.1.parse()?)
    }
}

/// Returns the mean of the counters over a time, and the middle of that time.
fn average(epoch: Instant, receiver: &Receiver, floods: &[Running]) -> Result<Reading> {
    let read = || -> Result<Reading> {
        let admitted = receiver.received()? as f64;
        let offered = floods.iter().map(Running::sent).sum::<u64>() as f64;
        Ok(Reading { seconds: epoch.elapsed().as_secs_f64(), admitted, offered })
    };
    let first = read()?;
    let (mut last, mut admitted, mut offered) = (first, 0.0, 0.0);
    while last.seconds - first.seconds < AVERAGED.as_secs_f64() {
        thread::sleep(STEP);
        let now = read()?;
        let width = now.seconds - last.seconds;
        admitted += f64::midpoint(last.admitted, now.admitted) * width;
        offered += f64::midpoint(last.offered, now.offered) * width;
        last = now;
    }
    let width = last.seconds - first.seconds;
    Ok(Reading {
        seconds: f64::midpoint(first.seconds, last.seconds),
        admitted: admitted / width,
        offered: offered / width,
    })
}

/// Returns the results as a table.
pub(crate) fn table(results: &[Accuracy]) -> Table {
    let of = |unit: &str| LIMITERS.map(|(name, _)| format!("{name} {unit}"));
    let mut rows: Vec<Row> = Vec::new();
    for (per_second, sources) in LIMITS {
        for cpus in CPUS {
            let of_case = |row: &&Accuracy| (row.per_second, row.sources, row.cpus) == (per_second, sources, cpus);
            let cells = LIMITERS.map(|(name, _)| results.iter().filter(of_case).find(|row| row.limiter == name));
            if cells.iter().any(Option::is_some) {
                let shares = cells.map(|row| row.filter(|row| row.multiple() >= LEAST).map(|row| row.share() * 100.0));
                let offered = cells.map(|row| row.map(|row| row.offered / 1e6));
                let name = format!("{per_second}/s each, sources: {}, CPUs: {cpus}", Sources::Count(sources));
                rows.push(Row { name, figures: [shares, offered].concat(), is_drawn: false });
            }
        }
    }
    Table {
        title: "accuracy".to_owned(),
        about: "*%*: admitted part of the configured rate. *Offered*: million packets per second.",
        plot: None,
        axis: Axis::Logarithmic,
        columns: [of("%"), of("offered")].concat(),
        rows,
        digits: 2,
        references: &[],
    }
}

/// Returns cases with too little traffic, and those in which a limiter counts something else than was received.
pub(crate) fn doubts(results: &[Accuracy]) -> Vec<String> {
    let line = |row: &Accuracy| {
        let Accuracy { limiter, per_second, sources, cpus, counted, received, .. } = row;
        let case = format!("doubtful: accuracy of {limiter}, {per_second}/s each, sources: {sources}, CPUs: {cpus}");
        let offered = row.multiple();
        let few = (offered < ENOUGH).then(|| format!("{case}: only {offered:.2} times the limit is offered"));
        let other = (counted != received).then(|| format!("{case}: it counts {counted} packets, {received} arrived"));
        [few, other].into_iter().flatten()
    };
    results.iter().flat_map(line).collect()
}
