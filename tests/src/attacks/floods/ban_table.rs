//! Forged offenders fill the table of bans. Real offenders come when these bans have ended.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Flood, Frame,
    attacks::{
        row::Row,
        stage::{FORGED, PORT, Stage, honest_sources},
    },
};

/// Forged offenders, more than the table has places.
const OFFENDERS: u32 = 200_000;
/// Forged offenders at a time. They exceed their burst before their rate gives them more.
const GROUP: u32 = 20_000;
/// Packets of each of them, more than the burst.
const EACH: u32 = 6;
/// The time of a ban, and more than the cells need to drain.
const BAN_AND_MORE: Duration = Duration::from_millis(4_500);
/// Offenders after the bans of the forged ones.
const REAL: u32 = 1_000;
const FIRST_REAL: Ipv4Addr = Ipv4Addr::new(12, 0, 0, 1);
/// Time in which they send, a tenth of a second between two rounds. It is less than a ban, so each is banned once.
const SENDING: Duration = Duration::from_millis(2_500);
const BURST: u64 = 4;
const NEWCOMERS: u32 = 1_000;

/// With so many cells, most forged sources are alone in their cell. A source is not banned for its neighbours.
pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 2/s --burst 4 --ban 4s --admissions 1M/s --cells 1048576");
    for group in 0..OFFENDERS / GROUP {
        let first = Ipv4Addr::from(u32::from(FORGED) + group * GROUP);
        stage.attack(&offenders(first, GROUP), u64::from(GROUP * EACH));
    }
    let failed = stage.ratelimit().json("status")["admission"]["bans_failed"].as_u64();
    assert!(failed.is_some_and(|bans| bans > 0), "the table was not full: {failed:?}");
    thread::sleep(BAN_AND_MORE);
    stage.begin();
    stage.honest(&honest_sources(NEWCOMERS), u64::from(NEWCOMERS), 10_000);
    let begin = Instant::now();
    while begin.elapsed() < SENDING {
        stage.attack(&offenders(FIRST_REAL, REAL), u64::from(REAL * EACH));
        thread::sleep(Duration::from_millis(100));
    }
    // Each of them gets its burst, and one packet more (G1). Without a ban it would get the packets of two seconds too.
    let most = u64::from(REAL) * (BURST + 1);
    stage.row("200,000 forged offenders; when their bans have ended, 1,000 others", Some(most))
}

fn offenders(first: Ipv4Addr, count: u32) -> Flood {
    Flood::of(Frame::udp(first, PORT)).sources(count)
}
