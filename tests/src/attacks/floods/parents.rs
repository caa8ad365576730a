//! Attacks on limits with parents, whose sources need buckets.

use std::{thread, time::Duration};

use ratelimit_common::limits::limit::{Rate, SECOND};

use crate::{
    Flood, Frame,
    attacks::{
        row::{Packets, Row},
        stage::{FORGED, PORT, Stage, from_everywhere, honest_sources},
    },
};

/// Longer than the burst of the admission budget lasts.
const ALONE: Duration = Duration::from_millis(500);
const CLIENTS: u32 = 2_000;

/// New sources spend the admission budget of every CPU. Then clients arrive that have no bucket.
pub(in crate::attacks) fn spend_the_budget() -> Row {
    let mut stage = Stage::new("--packets 1000/s --parent all=100M/s --parent /24=20k/s");
    stage.during(from_everywhere, |stage| {
        thread::sleep(ALONE);
        stage.honest(&honest_sources(CLIENTS), 5 * u64::from(CLIENTS), 10_000);
    });
    stage.row("packets at full speed, each from a new address, beside clients without a bucket", None)
}

const BURST: u64 = 100;
/// Times that the source spends its burst.
const ROUNDS: u32 = 10;
/// New sources after each, many more than there are buckets.
const RECYCLERS: u64 = 50_000;

/// A source spends its burst, and new sources take its bucket.
pub(in crate::attacks) fn recycle_the_bucket() -> Row {
    let setup = "--packets 1/m --burst 100 --parent all=100M/s --max-sources 1024 --admissions 100M/s";
    let mut stage = Stage::new(setup);
    let mut source = Packets::default();
    for round in 0..ROUNDS {
        let before = stage.attackers();
        stage.attack(&Flood::of(Frame::udp(FORGED, PORT)), 2 * BURST);
        source = source.plus(stage.attackers().since(before));
        stage.attack(&Flood::of(Frame::udp(FORGED, PORT)).endless(round << 20), RECYCLERS);
    }
    let most = stage.bound_per(Rate { amount: 1, period: 60 * SECOND }, BURST);
    stage.row_of(
        "one source spends its burst ten times; each time, 50,000 new sources take its bucket",
        source,
        Some(most),
    )
}
