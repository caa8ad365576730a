//! Comparison of the algorithms: the cost of admitting and refusing, and memory per source.

use anyhow::{Context as _, Result};
use ratelimit_common::{
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
        policy::{COARSE, Policy},
    },
    maps::names,
    meters::{
        sliding_log,
        window::{self, Window},
    },
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Sources};

use crate::{
    configurations::{Configuration, SPECIAL},
    measure::{Effort, footprint, noise::Noise, packet},
    results::{Packet, PerSource},
    state::State,
    table::{Axis, Row, Table},
};

/// The rows of one algorithm.
struct Case {
    algorithm: Algorithm,
    /// Admitting, with a bucket per source.
    admitting: &'static str,
    /// Refusing, with cells.
    refusing: &'static str,
}

const CASES: [Case; 5] = [
    Case { algorithm: Algorithm::TokenBucket, admitting: "front off, token-bucket", refusing: "token-bucket" },
    Case { algorithm: Algorithm::LeakyBucket, admitting: "front off, leaky-bucket", refusing: "leaky-bucket" },
    Case { algorithm: Algorithm::FixedWindow, admitting: "front off, fixed-window", refusing: "fixed-window" },
    Case { algorithm: Algorithm::SlidingWindow, admitting: "front off, sliding-window", refusing: "sliding-window" },
    Case { algorithm: Algorithm::SlidingLog, admitting: "front off, sliding-log", refusing: "sliding-log" },
];

/// More than a source of the hot rows can send within a second.
const MOST: u64 = window::SLIDING_MOST;

const SOURCES: &[Sources] = &[Sources::Count(1), Sources::Count(64_000)];

/// Returns the features of limits with this algorithm alone.
const fn looking(case: usize) -> fn(Settings) -> Settings {
    match CASES[case].algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => |settings| settings,
        Algorithm::FixedWindow | Algorithm::SlidingWindow => |settings| Settings { windows: true, ..settings },
        Algorithm::SlidingLog => |settings| Settings { logs: true, sliding_logs: 1 << 17, ..settings },
    }
}

/// Returns the same features without cells.
const fn looking_without_cells(case: usize) -> fn(Settings) -> Settings {
    match CASES[case].algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => |settings| Settings { cells: 0, ..settings },
        Algorithm::FixedWindow | Algorithm::SlidingWindow => {
            |settings| Settings { cells: 0, windows: true, ..settings }
        }
        Algorithm::SlidingLog => |settings| Settings { cells: 0, logs: true, sliding_logs: 1 << 17, ..settings },
    }
}

const fn admitting(case: usize, rules: fn(&mut Bytecode, &Policy)) -> Configuration {
    let settings = looking_without_cells(case);
    Configuration { name: CASES[case].admitting, settings, rules, sources: SOURCES, ..SPECIAL }
}

const fn refusing(case: usize, rules: fn(&mut Bytecode, &Policy)) -> Configuration {
    let settings = looking(case);
    let states = &[State::Over];
    Configuration { name: CASES[case].refusing, settings, rules, sources: SOURCES, states, ..SPECIAL }
}

/// Number of program loads.
const LOADS: usize = 7;

/// Measures the cost of a packet apart from other rows, since these rows are compared within some hundredths.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Packet>> {
    let effort = Effort { sources: SOURCES, has_special: true, noise: Noise::default(), ..*effort };
    let loads = packet::loads(&effort, &ROWS, "algorithms", LOADS)?;
    Ok(packet::medians(&loads))
}

/// The rows of this benchmark.
pub(crate) const ROWS: [Configuration; 10] = [
    admitting(0, |bytecode, policy| bytecode.set("default", *policy)),
    admitting(1, |bytecode, policy| bytecode.set("default", by(Algorithm::LeakyBucket, policy))),
    admitting(2, |bytecode, _| bytecode.set("default", windows(Algorithm::FixedWindow))),
    admitting(3, |bytecode, _| bytecode.set("default", windows(Algorithm::SlidingWindow))),
    // A sliding log with a period of zero admits every packet after its full work. The coarse clock matches windows of
    // half a second and more.
    admitting(4, |bytecode, _| {
        let window = Window::new(sliding_log::PLACES, 0, 0);
        let policy = windows(Algorithm::SlidingLog);
        bytecode.set_default(&Policy { windows: [window, Window::default()], flags: COARSE, ..policy });
    }),
    refusing(0, |bytecode, policy| bytecode.set("default", *policy)),
    refusing(1, |bytecode, policy| bytecode.set("default", by(Algorithm::LeakyBucket, policy))),
    refusing(2, |bytecode, _| bytecode.set("default", hourly(Algorithm::FixedWindow))),
    refusing(3, |bytecode, _| bytecode.set("default", hourly(Algorithm::SlidingWindow))),
    refusing(4, |bytecode, _| bytecode.set("default", hourly(Algorithm::SlidingLog))),
];

fn by(algorithm: Algorithm, policy: &Policy) -> Policy {
    Policy { algorithm: algorithm as u8, ..*policy }
}

/// Returns a limit above the rate of one source.
fn windows(algorithm: Algorithm) -> Policy {
    limited(
        Rate { amount: if algorithm == Algorithm::SlidingLog { sliding_log::PLACES } else { MOST }, period: SECOND },
        algorithm,
    )
}

/// Returns a limit of one packet per hour.
fn hourly(algorithm: Algorithm) -> Policy {
    limited(Rate { amount: 1, period: 3_600 * SECOND }, algorithm)
}

fn limited(rate: Rate, algorithm: Algorithm) -> Policy {
    Limit { packets: Some(rate), algorithm, ..Limit::default() }.policy().unwrap_or(Policy::UNLIMITED)
}

/// Reads the memory from the kernel, with space for this many sources.
pub(crate) fn memory(sources: u32) -> Result<Vec<PerSource>> {
    let of = |case: &Case| {
        let keeps_logs = case.algorithm == Algorithm::SlidingLog;
        let name = if keeps_logs { names::SLIDING_LOGS } else { names::BUCKETS };
        let settings = Settings {
            cells: 0,
            buckets: if keeps_logs { 1 } else { sources },
            logs: keeps_logs,
            sliding_logs: sources,
            ..Settings::default()
        };
        let maps = footprint::maps(Bytecode::with_kernel_clock_and(settings).program())?;
        let (_, bytes, entries) = maps.into_iter().find(|(of, ..)| of == name).context("a map is missing")?;
        Ok(PerSource { algorithm: case.algorithm.name(), bytes: bytes as f64 / f64::from(entries), sources: entries })
    };
    CASES.iter().map(of).collect()
}

/// Returns the table of algorithms.
pub(crate) fn table(packets: &[Packet], memory: &[PerSource]) -> Table {
    let figure = |name: &str, state, sources| {
        let is_it =
            |packet: &&Packet| packet.configuration == name && packet.state == state && packet.sources == sources;
        packets.iter().find(is_it).map(|packet| packet.nanoseconds)
    };
    let rows = CASES.iter().zip(memory).map(|(case, per_source)| {
        let mut figures = Vec::new();
        for sources in SOURCES {
            let admitting = figure(case.admitting, State::Passing, *sources);
            let reference = figure(CASES[0].admitting, State::Passing, *sources);
            figures.extend([admitting, ratio(admitting, reference)]);
        }
        for sources in SOURCES {
            let refusing = figure(case.refusing, State::Over, *sources);
            let reference = figure(CASES[0].refusing, State::Over, *sources);
            figures.extend([refusing, ratio(refusing, reference)]);
        }
        figures.extend([Some(per_source.bytes), Some(per_source.bytes)]);
        Row { name: case.algorithm.name().to_owned(), figures, is_drawn: false }
    });
    let head = ["1", "ratio", "64 k", "ratio"].map(str::to_owned);
    let columns =
        ["admit ", "refuse "].iter().flat_map(|what| head.iter().map(move |column| format!("{what}{column}")));
    let columns = columns.chain(["bytes".to_owned(), "MB/M".to_owned()]).collect();
    Table {
        title: "algorithms".to_owned(),
        about: "*Admit*: nanoseconds per packet that the bucket of 1 or 64 k sources admits. *Refuse*: nanoseconds per packet that a\n\
                cell refuses. Ratios are to the token bucket. *Bytes*: kernel memory of a source. *MB/M*: kernel memory of a million\n\
                sources.",
        plot: None,
        axis: Axis::Logarithmic,
        columns,
        rows: rows.collect(),
        digits: 2,
        references: &[],
    }
}

fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one? / other?)
}
