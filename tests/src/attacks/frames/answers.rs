//! Forged packets over a limit that rejects, so that answers go to addresses that did not ask.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Flood, Frame, PATIENCE, Sink,
    attacks::{
        row::{Packets, Row},
        stage::{FORGED, PORT, Stage},
    },
};

/// Forged sources. Each of them passes one packet.
const SOURCES: u32 = 1_000;
/// Answers per second, and those that may leave at once.
const ANSWERS: u64 = 100;
const AT_ONCE: u64 = 10;
const TIME: Duration = Duration::from_secs(2);

/// Answers count as packets that pass.
pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1/d --burst 1 --over-limit reject --replies 100/s");
    let peer = Sink::at_the_peer(stage.sandbox());
    let mut frame = Frame::udp(FORGED, PORT).bytes();
    // The frame is for another host, so the victim's own stack answers nothing.
    frame[5] ^= 0xff;
    let flood = Flood::of(frame).sources(SOURCES);
    stage.during(|_| flood.clone(), |_| thread::sleep(TIME));
    let (offered, most) = (stage.attackers().offered, stage.bound(ANSWERS, AT_ONCE));
    let answers = stage.ratelimit().json("status")["replies"]["sent"].as_u64().expect("the status has no answers");
    let deadline = Instant::now() + PATIENCE;
    while peer.received() < answers {
        assert!(Instant::now() < deadline, "{} of {answers} answers have arrived", peer.received());
        thread::yield_now();
    }
    let forged = Packets { offered, passed: peer.received() };
    stage.row_of("1,000 forged sources over their limit, at full speed; answers count as passed", forged, Some(most))
}
