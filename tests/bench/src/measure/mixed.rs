//! Sources under a fast limit beside as many under a slow one, by BPF_PROG_TEST_RUN.

use std::{
    net::Ipv6Addr,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Empty, Frame, Order, Sources, Walker, per_second};

use crate::{
    configurations::{DEFAULT, PORT, REFERENCE},
    measure::{
        Effort,
        noise::median,
        packet::{timed, verdicts},
        pin,
    },
    results::Mixed,
    table::{Axis, Row, Table},
};

/// Sources of each half. Fewer would exceed the fast limit.
const SOURCES: [u32; 3] = [500, 8_000, 32_000];

/// The limits, in packets per second of each source.
const FAST: u64 = 100_000;
const SLOW: u64 = 1;

/// Prefixes of 32 bits. Their sources differ in the next 32.
const MEASURED: u16 = 0xdb8;
const AS_FAST: u16 = 0xdb9;
const SLOWER: u16 = 0xdba;
/// Offset of those bits in an untagged Ethernet frame.
const SOURCE_AT: u32 = 26;

/// What is beside the measured half, by index of the other walkers.
const NEIGHBOURS: [Option<usize>; 3] = [None, Some(0), Some(1)];
/// The slow neighbours in that list.
const SLOW_ONES: usize = 2;

/// Packets of one half before the other has its turn.
const TURN: u32 = 500;
/// Turns before each sample.
const WARM_UP: u32 = 200;
/// Seconds of a sample beside slow sources, in which each of them sends many packets.
const SLOW_SECONDS: u64 = 2;

/// One number of sources with or without cells.
struct Case {
    configuration: &'static str,
    count: u32,
    bytecode: Bytecode,
    measured: Walker,
    others: [Walker; 2],
    /// By neighbour.
    samples: [Vec<Sample>; NEIGHBOURS.len()],
}

/// The result of many turns.
struct Sample {
    /// Thread time per packet of the measured half.
    nanoseconds: f64,
    /// Share of its packets.
    passed: f64,
    /// Packets of each neighbour that passed, per second.
    others_passed: f64,
}

/// Measures all cases in turn.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Mixed>> {
    pin(0)?;
    let empty = Empty::load();
    let mut idle = walker(MEASURED);
    idle.lead_to(empty.program());
    let mut floor = Vec::new();
    let mut cases = Vec::new();
    for count in SOURCES {
        for (configuration, cells) in [(DEFAULT.name, true), (REFERENCE, false)] {
            cases.push(Case::new(configuration, cells, count));
        }
    }
    for round in 1..=effort.rounds {
        effort.print_progress("slow limits beside fast ones", round);
        for case in &mut cases {
            for neighbour in 0..NEIGHBOURS.len() {
                let sample = case.sample(neighbour, effort.packets / TURN)?;
                case.samples[neighbour].push(sample);
            }
        }
        let turns = (0..effort.packets / TURN).map(|_| timed(&mut idle, Sources::Count(SOURCES[0]), TURN).0);
        floor.push(median(&turns.collect::<Vec<_>>()));
    }
    let floor = median(&floor);
    Ok(cases.iter().map(|case| case.result(effort, floor)).collect())
}

fn walker(half: u16) -> Walker {
    let source = Ipv6Addr::new(0x2001, half, 7, 7, 0, 0, 0, 1);
    Walker::of(Frame::udp(source, PORT).bytes(), SOURCE_AT, 0)
}

impl Case {
    fn new(configuration: &'static str, cells: bool, count: u32) -> Self {
        let defaults = Settings { lanes: true, buckets: 1 << 17, ..Settings::default() };
        let settings = Settings { cells: if cells { defaults.cells } else { 0 }, ..defaults };
        let mut bytecode = Bytecode::with_kernel_clock_and(settings);
        bytecode.set("default", per_second(FAST, FAST));
        bytecode.set(&format!("2001:{SLOWER:x}::/32"), per_second(SLOW, 1));
        let (mut measured, mut others) = (walker(MEASURED), [AS_FAST, SLOWER].map(walker));
        // The state after some seconds, in which sources have their buckets.
        let admissions = bytecode.set_admissions(u64::MAX);
        for walker in others.iter_mut().chain([&mut measured]) {
            walker.lead_to(bytecode.program());
            walker.run(Sources::Count(count), Order::InTurn, 2 * count);
        }
        bytecode.set_admissions(admissions);
        Self { configuration, count, bytecode, measured, others, samples: Default::default() }
    }

    /// Runs both halves by turns, and measures the first.
    fn sample(&mut self, neighbour: usize, turns: u32) -> Result<Sample> {
        for _ in 0..WARM_UP {
            self.turn(neighbour)?;
        }
        let least = Duration::from_secs(if neighbour == SLOW_ONES { SLOW_SECONDS } else { 0 });
        let (mut nanoseconds, mut passed) = (Vec::new(), 0);
        let (begin, before) = (Instant::now(), verdicts(&self.bytecode)?.0);
        while nanoseconds.len() < turns as usize || begin.elapsed() < least {
            let (per_packet, of_turn) = self.turn(neighbour)?;
            nanoseconds.push(per_packet);
            passed += of_turn;
        }
        let all_passed = verdicts(&self.bytecode)?.0 - before;
        Ok(Sample {
            // An interrupt is in few turns.
            nanoseconds: median(&nanoseconds),
            passed: passed as f64 / (nanoseconds.len() as f64 * f64::from(TURN)),
            others_passed: (all_passed - passed) as f64 / f64::from(self.count) / begin.elapsed().as_secs_f64(),
        })
    }

    /// Returns nanoseconds per packet of the measured half, and how many of its packets passed.
    fn turn(&mut self, neighbour: usize) -> Result<(f64, u64)> {
        let sources = Sources::Count(self.count);
        if let Some(other) = NEIGHBOURS[neighbour] {
            self.others[other].run(sources, Order::Random, TURN);
        }
        let before = verdicts(&self.bytecode)?.0;
        let (nanoseconds, _) = timed(&mut self.measured, sources, TURN);
        Ok((nanoseconds, verdicts(&self.bytecode)?.0 - before))
    }

    fn result(&self, effort: &Effort, floor: f64) -> Mixed {
        let all =
            |neighbour: usize, value: fn(&Sample) -> f64| self.samples[neighbour].iter().map(value).collect::<Vec<_>>();
        let nanoseconds = |neighbour| effort.figure(&all(neighbour, |sample| sample.nanoseconds)) - floor;
        Mixed {
            configuration: self.configuration,
            sources: Sources::Count(self.count),
            alone: nanoseconds(0),
            beside_fast: nanoseconds(1),
            beside_slow: nanoseconds(SLOW_ONES),
            passed: median(&all(SLOW_ONES, |sample| sample.passed)),
            slow_passed: median(&all(SLOW_ONES, |sample| sample.others_passed)),
        }
    }
}

/// Returns the table.
pub(crate) fn table(results: &[Mixed]) -> Table {
    let rows = results.iter().map(|row| {
        let ratio = row.beside_slow / row.beside_fast;
        let nanoseconds = [row.alone, row.beside_fast, row.beside_slow, ratio];
        let figures = nanoseconds.into_iter().chain([row.passed * 100.0, row.slow_passed]).map(Some).collect();
        Row { name: format!("{}, {} sources", row.configuration, row.sources), figures, is_drawn: false }
    });
    let columns = ["alone", "beside as fast ones", "beside slow ones", "slow to fast", "% passed", "slow passed/s"];
    Table {
        title: "slow limits beside fast ones".to_owned(),
        about: "Nanoseconds per packet above an empty program, of sources under 100,000/s. *Alone*: without others. *Beside*: with as\n\
                many other sources, under 100,000/s (fast) or 1/s (slow). *% passed*: of the fast sources.\n\
                *Slow passed/s*: packets per second of each slow source.",
        plot: None,
        axis: Axis::Logarithmic,
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        digits: 2,
        references: &[],
    }
}

/// Returns cases in which sources under the fast limit were dropped, or slow ones were not held at theirs. A sample of two
/// seconds has one to four of their packets: the rate in this time, a burst, and one more.
pub(crate) fn doubtful(results: &[Mixed]) -> impl Iterator<Item = String> {
    let is_doubtful = |row: &&Mixed| row.passed < 0.999 || !(0.4..=2.0).contains(&row.slow_passed);
    results.iter().filter(is_doubtful).map(|row| {
        let (percent, slow) = (row.passed * 100.0, row.slow_passed);
        let name = format!("{}, {} sources beside slow ones", row.configuration, row.sources);
        format!("doubtful: {name}: {percent:.1} % passed, and {slow:.1} packets of each slow source per second")
    })
}
