//! The cost of packets from known sources, with and without proofs. Proofs are asked only where the rate of unknown sources
//! is spent, so both cost the same.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Empty, Order, Sources, Walker};

use super::layout::CPU;
use crate::{
    configurations::PORT,
    measure::{noise::median, packet::timed, pin},
    state::never_reached,
};

/// Numbers of sources. All of them together stay below the rate until they are known.
const SOURCES: [u32; 2] = [1, 100];
/// Packets per second of all unknown sources.
const UNKNOWN: u64 = 1_000;
/// A source is known after packets in three different seconds.
const SECONDS: usize = 4;
/// Rounds in which both programs have their turn.
const ROUNDS: usize = 15;
/// Packets of a round.
const PACKETS: u32 = 300_000;

/// The cost in one load of the programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) sources: Sources,
    /// Nanoseconds per packet above an empty program, without and with proofs.
    pub(crate) without: f64,
    pub(crate) with: f64,
}

/// Measures this many loads. Each load places the code elsewhere, which changes its speed.
pub(super) fn run(loads: usize) -> Result<Vec<Known>> {
    pin(CPU)?;
    let mut walker = Walker::new(PORT, 0);
    let empty = Empty::load();
    let mut results = Vec::new();
    for load in 1..=loads {
        eprintln!("known sources, load {load} of {loads}");
        let programs = SOURCES.map(|count| [false, true].map(|prove_tcp| (Sources::Count(count), build(prove_tcp))));
        for _ in 0..SECONDS {
            for (sources, program) in programs.as_flattened() {
                let Sources::Count(count) = sources else { continue };
                walker.lead_to(program.program());
                walker.run(*sources, Order::InTurn, *count);
            }
            thread::sleep(Duration::from_secs(1));
        }
        for pair in &programs {
            results.push(compare(&mut walker, &empty, pair)?);
        }
    }
    Ok(results)
}

/// Loads the program, with a limit that no source reaches.
fn build(prove_tcp: bool) -> Bytecode {
    let settings = Settings { unknown: UNKNOWN, prove_tcp, ..Settings::default() };
    let mut program = Bytecode::with_kernel_clock_and(settings);
    program.set("default", never_reached());
    program
}

fn compare(walker: &mut Walker, empty: &Empty, pair: &[(Sources, Bytecode); 2]) -> Result<Known> {
    let sources = pair[0].0;
    let mut figures = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        walker.lead_to(empty.program());
        figures[0].push(timed(walker, sources, PACKETS).0);
        for ((_, program), figures) in pair.iter().zip(&mut figures[1..]) {
            let before = taken(program);
            walker.lead_to(program.program());
            figures.push(timed(walker, sources, PACKETS).0);
            ensure!(taken(program) == before, "a source is not known");
        }
    }
    let [floor, without, with] = figures.map(|figures| median(&figures));
    Ok(Known { sources, without: without - floor, with: with - floor })
}

/// Returns how many packets have taken from the rate of unknown sources.
fn taken(program: &Bytecode) -> u64 {
    program.cpus().iter().map(|cpu| cpu.unknown_passed).sum()
}
