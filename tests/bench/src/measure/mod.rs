//! Measurements. This file has their common parts.

pub(crate) mod accuracy;
pub(crate) mod algorithms;
pub(crate) mod attack;
pub(crate) mod check;
mod cpu_time;
pub(crate) mod cpus;
pub(crate) mod fleet;
pub(crate) mod footprint;
pub(crate) mod limiters;
pub(crate) mod live;
pub(crate) mod mixed;
pub(crate) mod noise;
pub(crate) mod packet;
mod receptions;
pub(crate) mod survival;
pub(crate) mod users;
pub(crate) mod visitors;
pub(crate) mod worst;

use std::{io, time::Duration};

use ratelimit_tests::Sources;
use rustix::{
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

use self::noise::Noise;
use crate::{
    configurations::{BOTNET, COMMON_SOURCES, Configuration, SOURCES},
    flood::Rate,
};

/// Extent of the measurements.
pub(crate) struct Effort {
    /// Rounds in which every case has its turn.
    pub(crate) rounds: usize,
    /// Packets of one sample without a network.
    pub(crate) packets: u32,
    /// Seconds of one sample with real frames.
    pub(crate) seconds: f64,
    /// Time after the first second of a flood before its later state is measured.
    pub(crate) settling: Duration,
    /// Seconds of a flood beside established sources.
    pub(crate) flood_seconds: u64,
    /// Rules and listed sources of the cases with very many.
    pub(crate) million: u32,
    /// Numbers of sources without a network.
    pub(crate) sources: &'static [Sources],
    /// Whether rows outside of the wire are measured.
    pub(crate) has_special: bool,
    /// Whether only few limits are compared with what is admitted, for a short time each.
    pub(crate) has_few_limits: bool,
    /// How far the rounds differ.
    pub(crate) noise: Noise,
    /// Floods beside the users of a web server.
    pub(crate) users: Extent,
}

/// Extent of the measurement of what users feel.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) sources: &'static [Sources],
    pub(crate) rates: &'static [Rate],
    /// Time in which pages are counted.
    pub(crate) window: Duration,
    /// Time after which a request has failed.
    pub(crate) patience: Duration,
}

/// Extent of `cargo xtask bench`.
const USERS: Extent = Extent {
    sources: &[Sources::Count(1), Sources::Count(1_000), BOTNET, Sources::Endless],
    rates: &[
        Rate::None,
        Rate::PerSecond(100_000),
        Rate::PerSecond(250_000),
        Rate::PerSecond(500_000),
        Rate::PerSecond(1_000_000),
        Rate::PerSecond(2_000_000),
        Rate::Most,
    ],
    window: Duration::from_millis(800),
    patience: Duration::from_millis(800),
};

/// Extent of `cargo xtask bench --quick`.
const FEW_USERS: Extent = Extent {
    sources: &[BOTNET, Sources::Endless],
    rates: &[Rate::None, Rate::PerSecond(250_000), Rate::PerSecond(1_000_000), Rate::Most],
    window: Duration::from_millis(300),
    patience: Duration::from_millis(300),
};

impl Effort {
    /// Returns the extent of `cargo xtask bench`.
    pub(crate) fn full() -> Self {
        Self {
            rounds: 5,
            packets: 1_000_000,
            seconds: 0.4,
            settling: Duration::from_secs(9),
            flood_seconds: 10,
            million: 1_000_000,
            sources: &SOURCES,
            has_special: true,
            has_few_limits: false,
            users: USERS,
            noise: Noise::default(),
        }
    }

    /// Returns the extent of each run of `cargo xtask bench --record`.
    pub(crate) fn recorded() -> Self {
        Self { rounds: 3, packets: 500_000, seconds: 0.3, settling: Duration::from_secs(2), ..Self::full() }
    }

    /// Returns the extent of `cargo xtask bench --quick`.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            packets: 100_000,
            seconds: 0.1,
            settling: Duration::from_secs(1),
            flood_seconds: 2,
            million: 100_000,
            sources: &COMMON_SOURCES,
            has_special: false,
            has_few_limits: true,
            users: FEW_USERS,
            noise: Noise::default(),
        }
    }

    /// Returns the median of a case's rounds, whose spread counts as noise of the run.
    pub(crate) fn figure(&self, rounds: &[f64]) -> f64 {
        self.noise.figure(rounds)
    }

    /// Returns whether a row is measured with this many sources.
    pub(crate) fn has(&self, configuration: &Configuration, sources: Sources) -> bool {
        configuration.sources.contains(&sources) && (self.has_special || configuration.on_wire)
    }

    /// Prints the progress.
    pub(crate) fn print_progress(&self, what: &str, round: usize) {
        eprintln!("{what}, round {round} of {}", self.rounds);
    }
}

/// Moves this thread to one CPU, counted from 0.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    Ok(sched_setaffinity(None, &cpus)?)
}

/// Returns the CPU time of this thread in nanoseconds.
pub(crate) fn thread_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
