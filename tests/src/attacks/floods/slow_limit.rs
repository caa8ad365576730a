//! Forged pings under a slow limit, beside newcomers under the fast default.

use crate::{
    Flood, Frame,
    attacks::{
        row::Row,
        stage::{FORGED, Stage, honest_sources},
    },
};

/// Pings before the newcomers.
const BEFORE: u64 = 1_200_000;
const NEWCOMERS: u32 = 2_000;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s; limit set default --service icmp --packets 10/m");
    let pings = |part| Flood::of(Frame::echo(FORGED)).endless(part << 26);
    stage.attack(&pings(2), BEFORE);
    stage.during(pings, |stage| stage.honest(&honest_sources(NEWCOMERS), 5 * u64::from(NEWCOMERS), 10_000));
    stage.row("1.2 M pings from new addresses, then at full speed, beside newcomers that send UDP", None)
}
