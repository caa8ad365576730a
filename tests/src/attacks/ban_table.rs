//! Forged offenders fill the table of bans. Real offenders come when these bans have ended.

use std::{thread, time::Duration};

use ratelimit::dataplane::program::loader::Settings;
use ratelimit_common::limits::{
    limit::SECOND,
    policy::{Ban, Policy},
};

use super::{
    row::Row,
    stage::{PORT, Stage, forge, in_steps},
};
use crate::{Frame, Sources, per_second};

/// Forged offenders, more than the table has places.
const FORGED: u32 = 200_000;
/// Packets of each of them at once, more than the burst.
const EACH: u32 = 25;
const BAN: u64 = 2 * SECOND;
/// So many that most forged sources are alone in their cell. A source is not banned for its neighbours.
const CELLS: u32 = 1 << 20;
/// Offenders after the bans of the forged ones.
const REAL: u32 = 1_000;
/// Rounds of their packets, a tenth of a second apart.
const ROUNDS: u32 = 10;
const BURST: u64 = 20;
/// Sources that stay within their limit, before and after.
const NEWCOMERS: u32 = 2_000;

pub(super) fn play() -> Row {
    let mut stage = Stage::new(Settings { bans: true, admissions: 1_000_000, cells: CELLS, ..Settings::default() });
    let ban = Ban { time: BAN, most: BAN, after: 1, reserved: 0 };
    stage.bytecode.set("default", Policy { ban, ..per_second(BURST, BURST) });
    let mut forged = stage.walker(&Frame::udp([192, 0, 2, 1], PORT), 0);
    forge(&mut forged, Sources::Count(FORGED), FORGED * EACH);
    // Longer than the bans, and than the cells need to drain.
    thread::sleep(Duration::from_nanos(BAN) + Duration::from_millis(500));
    stage.begin();
    (0..NEWCOMERS).for_each(|number| stage.send(number, 5));
    let mut real = stage.walker(&Frame::udp([192, 0, 2, 1], PORT), FORGED);
    in_steps(100 * ROUNDS, |step| {
        if step.is_multiple_of(100) {
            forge(&mut real, Sources::Count(REAL), REAL * EACH);
        }
    });
    // Each of them gets its burst, and one packet more (G1). Without a ban it would get a second's packets too.
    let most = u64::from(REAL) * (BURST + 1);
    let attack = "200,000 forged offenders; when their bans have ended, 1,000 others";
    stage.row(attack, "--packets 20/s --ban 2s --admissions 1M/s --cells 1048576", Some(most), 0)
}
