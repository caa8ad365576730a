//! Nanoseconds per packet beyond an empty drop program, by BPF_PROG_TEST_RUN.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use ratelimit_common::limits::policy::Policy;
use ratelimit_tests::{Bytecode, Empty, Order, Sources, Walker};

use crate::{
    configurations::{Configuration, PORT},
    measure::{Effort, noise::median, pin, thread_time},
    results::Packet,
    state::{State, half_of, never_reached, reached_at_once},
};

/// Minimum number of packets before each sample.
const WARM_UP: u32 = 20_000;

/// Largest factor by which a burst is used up faster than at the measured limit.
const DRAINING: f64 = 10.0;
/// Packets that a source sends at least in the time of its burst meanwhile, if its speed permits.
const LEAST_SENT: f64 = 16.0;

/// Attempts to find the speed of held sources, or to refuse every source, before a sample.
const ATTEMPTS: usize = 4;

/// Seconds of such an attempt, and at least of a sample. The coarse clock pays back some hundred times a second.
const HELD_SECONDS: f64 = 0.1;

/// Time in which cells pay back what an earlier limit has left: two bursts of the limit that is never reached, one second
/// each, and one more second. Until then, every packet asks the bucket of its source.
const PAID_BACK: Duration = Duration::from_secs(4);

/// One limiter with one number of sources, measured in several states.
struct Case {
    configuration: &'static Configuration,
    sources: Sources,
    bytecode: Bytecode,
    samples: BTreeMap<State, Vec<Sample>>,
    /// Packets per second under a limit of half of them.
    held_speed: Option<f64>,
}

/// The result of one run.
#[derive(Clone, Copy)]
struct Sample {
    /// Thread time per packet.
    nanoseconds: f64,
    /// By wall-clock time.
    packets_per_second: f64,
    /// Share of the packets.
    dropped: f64,
}

/// Measures the rows.
pub(crate) fn run(effort: &Effort, rows: &'static [Configuration], what: &str) -> Result<(f64, Vec<Packet>)> {
    pin(0)?;
    let mut walker = Walker::new(PORT, 0);
    let empty = Empty::load();
    let mut floor = Vec::new();
    let mut cases = Vec::new();
    for sources in effort.sources.iter().copied() {
        for configuration in rows.iter().filter(|configuration| effort.has(configuration, sources)) {
            let bytecode = configuration.build(sources)?;
            cases.push(Case { configuration, sources, bytecode, samples: BTreeMap::new(), held_speed: None });
        }
    }
    for round in 1..=effort.rounds {
        effort.print_progress(what, round);
        for sources in effort.sources {
            for case in cases.iter_mut().filter(|case| case.sources == *sources) {
                walker.lead_to(case.bytecode.program());
                for state in case.configuration.states.iter().copied().filter(|state| makes_sense(*state, *sources)) {
                    let sample = case.sample(&mut walker, state, effort.packets)?;
                    case.samples.entry(state).or_default().push(sample);
                }
            }
            walker.lead_to(empty.program());
            walker.run(*sources, Order::Random, 20 * WARM_UP);
            floor.push(timed(&mut walker, *sources, effort.packets).0);
        }
    }
    // One floor for all: an empty program reads no sources, and the placement of its code costs more than the walker's
    // work for them.
    let floor = median(&floor);
    let packets = cases.iter().flat_map(|case| case.results(effort, floor)).collect();
    Ok((floor, packets))
}

/// Measures the rows of this many loads of their programs, in the same order each time. The placement of its code makes
/// the same program up to a fifth slower or faster (kernel 6.18).
pub(crate) fn loads(
    effort: &Effort,
    rows: &'static [Configuration],
    what: &str,
    loads: usize,
) -> Result<Vec<Vec<Packet>>> {
    (1..=loads).map(|load| Ok(run(effort, rows, &format!("{what}, load {load} of {loads}"))?.1)).collect()
}

/// Returns the median of each row over these loads.
pub(crate) fn medians(loads: &[Vec<Packet>]) -> Vec<Packet> {
    let of = |(row, first): (usize, &Packet)| {
        let of = |value: fn(&Packet) -> f64| median(&loads.iter().map(|load| value(&load[row])).collect::<Vec<_>>());
        Packet { nanoseconds: of(|packet| packet.nanoseconds), dropped: of(|packet| packet.dropped), ..*first }
    };
    loads.first().into_iter().flatten().enumerate().map(of).collect()
}

/// Returns whether a state is possible. A new source's first packet always passes, and with very many sources a limit of
/// half of their rate is less than one packet per sample.
fn makes_sense(state: State, sources: Sources) -> bool {
    match (state, sources) {
        (State::Passing, _) | (State::Over, Sources::Count(_)) => true,
        (State::Held, Sources::Count(count)) => count <= 64_000,
        (_, Sources::Endless) => false,
    }
}

impl Case {
    fn sample(&mut self, walker: &mut Walker, state: State, packets: u32) -> Result<Sample> {
        let mut packets = packets;
        match (state, self.sources) {
            (State::Passing, _) => {
                self.put_under(&never_reached(), walker);
                if self.samples.keys().any(|earlier| *earlier != State::Passing) {
                    thread::sleep(PAID_BACK);
                    walker.run(self.sources, Order::Random, WARM_UP);
                }
            }
            (State::Held, Sources::Count(count)) => {
                let speed = self.hold(walker, count)?;
                packets = packets.max((speed * HELD_SECONDS) as u32);
            }
            _ => {
                self.put_under(&reached_at_once()?, walker);
                // Each source's first packet passes as soon as the source gets a bucket. The state after a while: each
                // source has a refusal, and it is cached.
                if let Sources::Count(count) = self.sources {
                    for _ in 0..ATTEMPTS {
                        let (_, before) = verdicts(&self.bytecode)?;
                        walker.run(self.sources, Order::InTurn, count);
                        let dropped = (verdicts(&self.bytecode)?.1 - before) as f64 / f64::from(count);
                        if state.dropped().contains(&dropped) {
                            break;
                        }
                    }
                }
            }
        }
        let (_, dropped_before) = verdicts(&self.bytecode)?;
        let (nanoseconds, packets_per_second) = timed(walker, self.sources, packets);
        let dropped = verdicts(&self.bytecode)?.1 - dropped_before;
        Ok(Sample { nanoseconds, packets_per_second, dropped: dropped as f64 / f64::from(packets) })
    }

    /// Puts the sources under a limit of half of their speed, with their bursts used up, and returns that speed. The
    /// limit changes the speed, so that it takes some attempts to find both.
    fn hold(&mut self, walker: &mut Walker, count: u32) -> Result<f64> {
        let (mut speed, attempts) = match self.held_speed {
            Some(speed) => (speed, 1),
            None => (self.passing_speed()?, ATTEMPTS),
        };
        for _ in 0..attempts {
            self.drain(walker, count, speed)?;
            let (_, measured) = timed(walker, self.sources, (speed * HELD_SECONDS) as u32);
            // A lower limit makes most rows faster. Half of the step keeps the attempts from going back and forth.
            speed = f64::midpoint(speed, measured);
        }
        self.held_speed = Some(speed);
        self.drain(walker, count, speed)?;
        Ok(speed)
    }

    /// Uses up the bursts under a limit of half of this speed.
    fn drain(&mut self, walker: &mut Walker, count: u32, speed: f64) -> Result<()> {
        // A tenth of the rate uses up a burst of the same time with a tenth of the packets, since debt is time. A burst of
        // few packets would round that time.
        let factor = (speed / f64::from(count) / LEAST_SENT).clamp(1.0, DRAINING);
        self.put_under(&half_of(speed / factor, count)?, walker);
        walker.run(self.sources, Order::Random, (speed / factor * 1.5) as u32);
        self.put_under(&half_of(speed, count)?, walker);
        // All sources reached the limit at the same time, which is unrealistic.
        walker.run(self.sources, Order::Random, (speed * HELD_SECONDS) as u32);
        Ok(())
    }

    /// Returns packets per second of the sources under a limit that they never reach.
    fn passing_speed(&self) -> Result<f64> {
        let samples = self.samples.get(&State::Passing).with_context(|| {
            let name = self.configuration.name;
            format!("{name}: what is held must have passed before")
        })?;
        Ok(median(&samples.iter().map(|sample| sample.packets_per_second).collect::<Vec<_>>()))
    }

    /// Sets this policy for every source. Afterwards each has its bucket and is in the caches.
    fn put_under(&mut self, policy: &Policy, walker: &mut Walker) {
        (self.configuration.rules)(&mut self.bytecode, policy);
        // The state after some seconds, in which sources have their buckets.
        let admissions = self.bytecode.set_admissions(u64::MAX);
        match self.sources {
            Sources::Count(count) => {
                walker.run(self.sources, Order::InTurn, count);
                walker.run(self.sources, Order::Random, WARM_UP);
            }
            // The first time, the bucket map fills.
            Sources::Endless if self.samples.is_empty() => walker.run(self.sources, Order::InTurn, 50 * WARM_UP),
            Sources::Endless => walker.run(self.sources, Order::InTurn, WARM_UP),
        }
        self.bytecode.set_admissions(admissions);
    }

    fn results(&self, effort: &Effort, floor: f64) -> impl Iterator<Item = Packet> {
        self.samples.iter().map(move |(state, samples)| {
            let all = |value: fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<_>>();
            Packet {
                configuration: self.configuration.name,
                state: *state,
                sources: self.sources,
                nanoseconds: effort.figure(&all(|sample| sample.nanoseconds)) - floor,
                dropped: median(&all(|sample| sample.dropped)),
            }
        })
    }
}

/// Returns packets that a limiter has passed and dropped.
pub(crate) fn verdicts(bytecode: &Bytecode) -> Result<(u64, u64)> {
    let counts = bytecode.tables.counts()?;
    let (passed, dropped): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(reason, _)| reason.passes());
    let sum = |counts: Vec<(_, ratelimit_common::reason::Count)>| counts.iter().map(|(_, count)| count.packets).sum();
    Ok((sum(passed), sum(dropped)))
}

/// Returns nanoseconds of thread time per packet, and packets per second of wall-clock time.
pub(crate) fn timed(walker: &mut Walker, sources: Sources, packets: u32) -> (f64, f64) {
    let (begin, begin_thread) = (Instant::now(), thread_time());
    walker.run(sources, Order::Random, packets);
    let nanoseconds = (thread_time() - begin_thread) / f64::from(packets);
    (nanoseconds, f64::from(packets) / begin.elapsed().as_secs_f64())
}
