//! Orders in which the CPUs run, and how the time goes meanwhile.

use core::sync::atomic::{AtomicU64, Ordering};
use std::{boxed::Box, vec::Vec};

use crate::bpf::schedule::{Choose, Stop};

/// Order of the CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Order {
    /// Each in turn, so that all read a word before the first one writes it.
    InTurn,
    /// At random.
    Random,
    /// No CPU writes before all others have come to a write. Then they write in turn.
    Herd,
    /// No CPU adds before all others have come to an addition or cannot go on without one.
    Flock,
    /// At random, but a CPU at a write often waits for thousands of accesses.
    Delays,
    /// At random, but each CPU often waits for some accesses, wherever it is.
    Pauses,
}

impl Order {
    pub(super) const ALL: [Self; 6] = [Self::InTurn, Self::Random, Self::Herd, Self::Flock, Self::Delays, Self::Pauses];

    /// Returns the schedule of this order. It calls `tick` with a random number at each access.
    pub(super) fn choose(self, seed: u64, mut tick: impl FnMut(u64) + Send + 'static) -> Choose {
        let (mut draw, mut last, mut asleep) = (Draw(1 + self as u64 + seed), 0, Vec::new());
        Box::new(move |stops| {
            let number = draw.next();
            tick(number);
            last = match self {
                Self::InTurn => next(stops, last, |_| true),
                Self::Random => next(stops, number as usize, |_| true),
                Self::Herd => next(stops, last, |stop| !matches!(stop, Stop::Write | Stop::Add)),
                Self::Flock => next(stops, last, |stop| stop != Stop::Add),
                Self::Delays | Self::Pauses => {
                    asleep.resize(stops.len(), 0u32);
                    asleep.iter_mut().for_each(|left| *left = left.saturating_sub(1));
                    let chosen = awake(stops, number as usize, &asleep);
                    let (is_here, time) = match self {
                        Self::Delays => (stops[chosen] != Stop::Load, 2_000),
                        _ => (true, number as u32 % 32),
                    };
                    if is_here && draw.next().is_multiple_of(4) && asleep[chosen] == 0 {
                        asleep[chosen] = time;
                        awake(stops, chosen + 1, &asleep)
                    } else {
                        chosen
                    }
                }
            };
            last
        })
    }
}

/// Returns the next CPU behind `after` that is not done and at a stop of this kind; if there is none, the next that is
/// not done.
fn next(stops: &[Stop], after: usize, is_preferred: impl Fn(Stop) -> bool) -> usize {
    let turn = |wanted: &dyn Fn(Stop) -> bool| {
        (1..=stops.len()).map(|step| (after % stops.len() + step) % stops.len()).find(|cpu| wanted(stops[*cpu]))
    };
    let found = turn(&|stop| stop != Stop::Done && is_preferred(stop)).or_else(|| turn(&|stop| stop != Stop::Done));
    found.expect("a CPU is not done")
}

fn awake(stops: &[Stop], after: usize, asleep: &[u32]) -> usize {
    let order = (1..=stops.len()).map(|step| (after % stops.len() + step) % stops.len());
    let found = order.clone().find(|cpu| stops[*cpu] != Stop::Done && asleep[*cpu] == 0);
    found.or_else(|| order.clone().find(|cpu| stops[*cpu] != Stop::Done)).expect("a CPU is not done")
}

/// How the time goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Time {
    /// It stands still.
    Stopped,
    /// An access takes some nanoseconds.
    Runs,
    /// A thousandth of the accesses takes as long as several packets at the limit.
    Jumps,
}

impl Time {
    pub(super) const ALL: [Self; 3] = [Self::Stopped, Self::Runs, Self::Jumps];

    /// Lets the time of one access go by. `cost` is the time of one packet at the limit.
    pub(super) fn pass(self, clock: &AtomicU64, cost: u64, number: u64) {
        let nanoseconds = match self {
            Self::Stopped => 0,
            Self::Runs => number % 8,
            Self::Jumps if number.is_multiple_of(1_000) => (number >> 16) % (4 * cost),
            Self::Jumps => 0,
        };
        clock.fetch_add(nanoseconds, Ordering::SeqCst);
    }
}

/// Random numbers (splitmix64).
pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }
}
