//! Forged packets under a slow limit, beside newcomers under the fast default.

use crate::{
    Flood, Frame,
    attacks::{
        row::Row,
        stage::{FORGED, PORT, Stage, honest_sources},
    },
};

/// Packets before the newcomers.
const BEFORE: u64 = 1_200_000;
const NEWCOMERS: u32 = 2_000;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s; limit set default --service icmp --packets 10/m");
    let pings = |part| Flood::of(Frame::echo(FORGED)).endless(part << 26);
    stage.attack(&pings(2), BEFORE);
    stage.during(pings, send_newcomers);
    stage.row("1.2 M pings from new addresses, then at full speed, beside newcomers that send UDP", None)
}

/// The limit is that of a prefix. It is deleted before the newcomers arrive.
pub(in crate::attacks) fn play_deleted() -> Row {
    let mut stage = Stage::new("--packets 1000/s; limit set 11.0.0.0/8 --packets 10/m");
    stage.attack(&Flood::of(Frame::udp(FORGED, PORT)).sources(BEFORE as u32), BEFORE);
    stage.ratelimit().ok("limit del 11.0.0.0/8");
    send_newcomers(&mut stage);
    stage.row("1.2 M packets from new addresses of the prefix; newcomers elsewhere after its limit is deleted", None)
}

fn send_newcomers(stage: &mut Stage) {
    stage.honest(&honest_sources(NEWCOMERS), 5 * u64::from(NEWCOMERS), 10_000);
}
