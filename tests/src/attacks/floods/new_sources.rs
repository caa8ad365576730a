//! A flood in which each packet has another forged source, beside sources that sent before.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::attacks::{
    row::Row,
    stage::{Stage, cpus, from_everywhere, honest_sources},
};

/// Sources that sent before.
pub(super) const ESTABLISHED: u32 = 1_000;
/// Seconds in which they sent, so that they are known.
const SECONDS: u32 = 3;
/// A second as the program counts it, 2³⁰ ns, and some ticks of its clock.
pub(super) const SECOND_AND_MORE: Duration = Duration::from_nanos((1 << 30) + 50_000_000);
/// Packets of all unknown sources per second.
const UNKNOWN: u64 = 10_000;
/// Packets per second of all established sources.
const PACE: u64 = 2_500;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s");
    flood(&mut stage);
    stage.row("packets at full speed, each from a new address", None)
}

pub(in crate::attacks) fn play_with_unknown_limited() -> Row {
    let mut stage = Stage::new("--packets 1000/s --unknown 10k/s");
    flood(&mut stage);
    let most = most_unknown(&stage);
    stage.row("the same", Some(most))
}

/// Returns how many packets of unknown sources may have passed. At most a fifth of a second of them may arrive at once,
/// and each CPU may hold a batch.
pub(super) fn most_unknown(stage: &Stage) -> u64 {
    stage.bound(UNKNOWN, UNKNOWN / 5 + cpus() as u64 * UNKNOWN / 1_000)
}

/// Makes honest sources known: they send in three different seconds, all together below the rate of unknown sources.
pub(super) fn establish(stage: &mut Stage) {
    for _ in 0..SECONDS {
        let begin = Instant::now();
        stage.honest(&honest_sources(ESTABLISHED), ESTABLISHED.into(), PACE);
        thread::sleep(SECOND_AND_MORE.saturating_sub(begin.elapsed()));
    }
    stage.begin();
}

/// Sends five packets of each established source.
pub(super) fn send_established(stage: &mut Stage) {
    stage.honest(&honest_sources(ESTABLISHED), 5 * u64::from(ESTABLISHED), PACE);
}

fn flood(stage: &mut Stage) {
    establish(stage);
    stage.during(from_everywhere, send_established);
}
