//! Forged addresses that are used again, so that they seem known.

use std::{thread, time::Instant};

use ratelimit::dataplane::{program::loader::Settings, sys::host};

use super::{
    new_sources::{SECOND_AND_MORE, UNKNOWN, make_known, most_unknown},
    row::Row,
    stage::{PORT, Stage, forge},
};
use crate::{Frame, Sources, per_second};

/// Addresses of the attacker.
const FORGED: u32 = 200_000;
/// Different seconds in which each of them sends.
const SECONDS: u32 = 5;
/// Packets afterwards.
const AFTER: u32 = 1_000_000;
/// Sources that were known before.
const KNOWN: u32 = 1_000;

pub(super) fn play() -> Row {
    let mut stage = Stage::new(Settings { unknown: UNKNOWN, ..Settings::default() });
    stage.bytecode.set("default", per_second(1_000, 1_000));
    make_known(&mut stage, KNOWN);
    stage.begin();
    let begin = host::now();
    let mut forged = stage.walker(&Frame::udp([192, 0, 2, 1], PORT), 0);
    for _ in 0..SECONDS {
        let begin = Instant::now();
        forge(&mut forged, Sources::Count(FORGED), FORGED);
        thread::sleep(SECOND_AND_MORE.saturating_sub(begin.elapsed()));
    }
    for part in 0..KNOWN {
        forge(&mut forged, Sources::Count(FORGED), AFTER / KNOWN);
        stage.send(part, 5);
    }
    let most = most_unknown(host::now() - begin);
    let attack = "200,000 forged addresses in five different seconds, then a million packets from them";
    stage.row(attack, "--packets 1000/s --unknown 10k/s", Some(most), 0)
}
