//! Forged addresses that are used again, so that they seem known.

use std::{thread, time::Instant};

use super::new_sources::{SECOND_AND_MORE, establish, most_unknown, send_established};
use crate::{
    Flood, Frame,
    attacks::{
        row::Row,
        stage::{FORGED, PORT, Stage},
    },
};

/// Addresses of the attacker.
const ADDRESSES: u32 = 200_000;
/// Packets that they send afterwards.
const LATER: u64 = 1_000_000;
/// Different seconds in which each of them sends.
const SECONDS: u32 = 5;

pub(in crate::attacks) fn play() -> Row {
    let forged = Flood::of(Frame::udp(FORGED, PORT)).sources(ADDRESSES);
    let mut stage = Stage::new("--packets 1000/s --unknown 10k/s");
    establish(&mut stage);
    for _ in 0..SECONDS {
        let begin = Instant::now();
        stage.attack(&forged, ADDRESSES.into());
        thread::sleep(SECOND_AND_MORE.saturating_sub(begin.elapsed()));
    }
    stage.attack(&forged, LATER);
    send_established(&mut stage);
    let most = most_unknown(&stage);
    stage.row("200,000 forged addresses in five different seconds, then a million packets from them", Some(most))
}

/// Addresses that stay within the rate together, so that all of them can become known.
const PATIENT: u32 = 10_000;
/// Their packets per second.
const PATIENT_PACE: u64 = 9_000;

/// The addresses pay for becoming known. From then on, each has the limit of a source.
pub(in crate::attacks) fn play_patient() -> Row {
    let forged = Flood::of(Frame::udp(FORGED, PORT)).sources(PATIENT);
    let mut stage = Stage::new("--packets 1000/s --unknown 10k/s");
    establish(&mut stage);
    for _ in 0..SECONDS {
        stage.attack(&forged.clone().pace(PATIENT_PACE), PATIENT.into());
    }
    stage.attack(&forged, LATER);
    send_established(&mut stage);
    stage.row("10,000 forged addresses stay below the rate for five seconds, then send a million packets", None)
}
