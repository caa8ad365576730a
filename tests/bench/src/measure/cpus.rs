//! The gain of a second CPU: packets on two CPUs at once, compared with one.

use std::{panic::resume_unwind, sync::Barrier, thread, time::Instant};

use anyhow::Result;
use ratelimit_tests::{Bytecode, Order, Sources, Walker};

use crate::{
    configurations::{CONFIGURATIONS, Configuration, DENIED, PORT},
    measure::{Effort, noise::median, pin},
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

/// Packets before each sample.
const WARM_UP: u32 = 100_000;

struct Case {
    configuration: &'static Configuration,
    traffic: Traffic,
    bytecode: Bytecode,
    one: Vec<f64>,
    two: Vec<f64>,
}

/// Measures, or prints that there is only one CPU.
pub(crate) fn run(effort: &Effort) -> Result<Vec<TwoCpus>> {
    if thread::available_parallelism()?.get() < 2 {
        println!("two CPUs against one: skipped, this machine has one CPU");
        return Ok(Vec::new());
    }
    // One walker per CPU, with other sources and with the same. All cases use them: the kernel's dispatcher has space
    // for 48 programs, and calls others more slowly (kernel 6.18).
    let mut pairs = [[0, OTHERS], [0, 0]].map(|firsts| firsts.map(|first| Walker::new(PORT, first)));
    let mut cases = Vec::new();
    for configuration in CONFIGURATIONS.iter().filter(|configuration| configuration.on_wire).chain([&DENIED]) {
        for traffic in TRAFFIC.into_iter().filter(|(.., state)| configuration.states.contains(state)) {
            cases.push(Case::new(configuration, traffic, &mut pairs)?);
        }
    }
    let packets = effort.packets / 2;
    for round in 1..=effort.rounds {
        effort.print_progress("two CPUs", round);
        for case in &mut cases {
            let pair = case.led(&mut pairs);
            // The CPUs differ in speed, since one of them has the interrupts.
            let one = f64::midpoint(case.speed(pair, &[0], packets)?, case.speed(pair, &[1], packets)?);
            let two = case.speed(pair, &[0, 1], packets)?;
            case.one.push(one);
            case.two.push(two);
        }
    }
    Ok(cases.iter().map(|case| case.result(effort)).collect())
}

impl Case {
    fn new(configuration: &'static Configuration, traffic: Traffic, pairs: &mut [[Walker; 2]; 2]) -> Result<Self> {
        let (_, sources, _, state) = traffic;
        let mut bytecode = configuration.build(sources)?;
        let policy = if state == State::Over { reached_at_once()? } else { never_reached() };
        (configuration.rules)(&mut bytecode, &policy);
        let case = Self { configuration, traffic, bytecode, one: Vec::new(), two: Vec::new() };
        for walker in case.led(pairs) {
            walker.run(sources, Order::InTurn, WARM_UP);
        }
        Ok(case)
    }

    /// Leads the walkers of this traffic to the program.
    fn led<'a>(&self, pairs: &'a mut [[Walker; 2]; 2]) -> &'a mut [Walker; 2] {
        let pair = &mut pairs[usize::from(self.traffic.2)];
        pair.iter_mut().for_each(|walker| walker.lead_to(self.bytecode.program()));
        pair
    }

    /// Returns packets per second on these CPUs together.
    fn speed(&self, walkers: &mut [Walker; 2], cpus: &[usize], packets: u32) -> Result<f64> {
        let sources = self.traffic.1;
        let barrier = Barrier::new(cpus.len());
        let run = |cpu, walker: &mut Walker| -> Result<f64> {
            pin(cpu)?;
            walker.run(sources, Order::Random, WARM_UP);
            barrier.wait();
            let begin = Instant::now();
            walker.run(sources, Order::Random, packets);
            Ok(f64::from(packets) / begin.elapsed().as_secs_f64())
        };
        let run = &run;
        thread::scope(|scope| {
            let walkers = walkers.iter_mut().enumerate().filter(|(cpu, _)| cpus.contains(cpu));
            let threads: Vec<_> = walkers.map(|(cpu, walker)| scope.spawn(move || run(cpu, walker))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|payload| resume_unwind(payload))).sum()
        })
    }

    fn result(&self, effort: &Effort) -> TwoCpus {
        let (one, two) = (effort.figure(&self.one), effort.figure(&self.two));
        let ratios: Vec<f64> = self.one.iter().zip(&self.two).map(|(one, two)| two / one).collect();
        let (traffic, _, _, state) = self.traffic;
        TwoCpus { configuration: self.configuration.name, state, traffic, one, two, ratio: median(&ratios) }
    }
}
