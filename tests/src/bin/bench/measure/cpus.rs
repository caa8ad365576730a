//! The gain of a second CPU: packets on two CPUs at once, compared with one.

use std::{panic::resume_unwind, sync::Barrier, thread, time::Instant};

use anyhow::Result;
use ratelimit_tests::{Order, Sources, Walker};

use crate::{
    configurations::{self, Configuration, PORT},
    measure::{Effort, median, pin},
    results::TwoCpus,
    state::{State, never_reached, reached_at_once},
};

/// Traffic: its name, the sources of each CPU, whether both share them, and the state.
type Traffic = (&'static str, Sources, bool, State);

const TRAFFIC: [Traffic; 5] = [
    ("same source", Sources::Count(1), true, State::Passing),
    ("same source", Sources::Count(1), true, State::Over),
    ("1 k sources each", Sources::Count(1_000), false, State::Passing),
    ("1 k sources each", Sources::Count(1_000), false, State::Over),
    ("endless", Sources::Endless, false, State::Passing),
];

/// First source number of the second CPU if it has its own sources.
const OTHERS: u32 = 1 << 31;

struct Case {
    configuration: &'static Configuration,
    traffic: Traffic,
    /// One walker per CPU.
    walkers: [Walker; 2],
    one: Vec<f64>,
    two: Vec<f64>,
}

/// Measures, or prints that there is only one CPU.
pub(crate) fn run(effort: &Effort) -> Result<Vec<TwoCpus>> {
    if thread::available_parallelism()?.get() < 2 {
        println!("two CPUs against one: skipped, this machine has one CPU");
        return Ok(Vec::new());
    }
    let mut cases = Vec::new();
    for configuration in configurations::CONFIGURATIONS.iter().filter(|configuration| configuration.on_wire) {
        for traffic in TRAFFIC {
            cases.push(Case::new(configuration, traffic)?);
        }
    }
    let packets = effort.packets / 2;
    for round in 1..=effort.rounds {
        effort.print_progress("two CPUs", round);
        for case in &mut cases {
            // The CPUs differ in speed, since one of them has the interrupts.
            let one = f64::midpoint(case.speed(&[0], packets)?, case.speed(&[1], packets)?);
            let two = case.speed(&[0, 1], packets)?;
            case.one.push(one);
            case.two.push(two);
        }
    }
    Ok(cases.iter().map(Case::result).collect())
}

impl Case {
    fn new(configuration: &'static Configuration, traffic: Traffic) -> Result<Self> {
        let (_, sources, same, state) = traffic;
        let mut bytecode = configuration.build(sources)?;
        let policy = if state == State::Over { reached_at_once()? } else { never_reached() };
        (configuration.rules)(&mut bytecode, &policy);
        let mut walkers = [Walker::new(PORT, 0), Walker::new(PORT, if same { 0 } else { OTHERS })];
        for walker in &mut walkers {
            walker.lead_to(bytecode.program());
            walker.run(sources, Order::InTurn, 100_000);
        }
        Ok(Self { configuration, traffic, walkers, one: Vec::new(), two: Vec::new() })
    }

    /// Returns packets per second on these CPUs together.
    fn speed(&mut self, cpus: &[usize], packets: u32) -> Result<f64> {
        let sources = self.traffic.1;
        let barrier = Barrier::new(cpus.len());
        let run = |cpu, walker: &mut Walker| -> Result<f64> {
            pin(cpu)?;
            walker.run(sources, Order::Random, packets / 10);
            barrier.wait();
            let begin = Instant::now();
            walker.run(sources, Order::Random, packets);
            Ok(f64::from(packets) / begin.elapsed().as_secs_f64())
        };
        let run = &run;
        thread::scope(|scope| {
            let walkers = self.walkers.iter_mut().enumerate().filter(|(cpu, _)| cpus.contains(cpu));
            let threads: Vec<_> = walkers.map(|(cpu, walker)| scope.spawn(move || run(cpu, walker))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|payload| resume_unwind(payload))).sum()
        })
    }

    fn result(&self) -> TwoCpus {
        let (one, two) = (median(&self.one), median(&self.two));
        let ratios: Vec<f64> = self.one.iter().zip(&self.two).map(|(one, two)| two / one).collect();
        let (traffic, _, _, state) = self.traffic;
        TwoCpus { configuration: self.configuration.name, state, traffic, one, two, ratio: median(&ratios) }
    }
}
