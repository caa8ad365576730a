//! A flood in which each packet has another forged source, beside sources that sent before.

use std::{thread, time::Duration};

use ratelimit::dataplane::{program::loader::Settings, sys::host};
use ratelimit_common::limits::limit::{Rate, SECOND};

use super::{
    row::Row,
    stage::{PORT, Stage, forge, in_steps},
};
use crate::{Frame, Sources, per_second, tokens};

/// Sources that sent before.
const ESTABLISHED: u32 = 1_000;
/// Seconds in which they sent, so that they are known.
const SECONDS: u32 = 3;
/// A second as the program counts it, 2³⁰ ns, and some ticks of its clock.
pub(super) const SECOND_AND_MORE: Duration = Duration::from_nanos((1 << 30) + 50_000_000);
/// Steps of the flood.
const STEPS: u32 = 2_000;
/// Packets of the flood in each step: a million per second.
const FORGED: u32 = 1_000;
/// Packets of all unknown sources per second.
pub(super) const UNKNOWN: u64 = 10_000;

pub(super) fn play() -> Row {
    let (stage, _) = flood(Settings::default());
    stage.row("a million packets per second, each from a new address", "--packets 1000/s", None, 0)
}

pub(super) fn play_with_unknown_limited() -> Row {
    let (stage, time) = flood(Settings { unknown: UNKNOWN, ..Settings::default() });
    stage.row("the same", "--packets 1000/s --unknown 10k/s", Some(most_unknown(time)), 0)
}

/// Returns how many packets of unknown sources may pass within this time. A tenth of a second of them may arrive at
/// once, and each CPU may hold a batch.
pub(super) fn most_unknown(nanoseconds: u64) -> u64 {
    let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    tokens::bound(Rate { amount: UNKNOWN, period: SECOND }, UNKNOWN / 10 + cpus * UNKNOWN / 1_000, nanoseconds)
}

/// Makes honest sources known: they send in three different seconds, all together below the rate of unknown sources.
pub(super) fn make_known(stage: &mut Stage, sources: u32) {
    for _ in 0..SECONDS {
        let begin = std::time::Instant::now();
        in_steps(sources / 4, |step| (0..4).for_each(|part| stage.send(4 * step + part, 1)));
        thread::sleep(SECOND_AND_MORE.saturating_sub(begin.elapsed()));
    }
}

/// Returns the stage after the flood, and the nanoseconds that the flood took.
fn flood(settings: Settings) -> (Stage, u64) {
    let mut stage = Stage::new(settings);
    stage.bytecode.set("default", per_second(1_000, 1_000));
    make_known(&mut stage, ESTABLISHED);
    stage.begin();
    let begin = host::now();
    let mut forged = stage.walker(&Frame::udp([192, 0, 2, 1], PORT), 0);
    in_steps(STEPS, |step| {
        forge(&mut forged, Sources::Endless, FORGED);
        (0..5).for_each(|part| stage.send((5 * step + part) % ESTABLISHED, 1));
    });
    (stage, host::now() - begin)
}
