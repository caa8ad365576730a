//! One source on two CPUs at once, far over its limit.

use std::{thread, time::Duration};

use crate::{
    Flood, Frame,
    attacks::{
        row::Row,
        stage::{FORGED, PORT, Stage},
    },
};

const TIME: Duration = Duration::from_secs(2);

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 100k/s --burst 1000");
    stage.during(|_| Flood::of(Frame::udp(FORGED, PORT)), |_| thread::sleep(TIME));
    let most = stage.bound(100_000, 1_000);
    stage.row("one source at full speed on two CPUs at the same time", Some(most))
}
