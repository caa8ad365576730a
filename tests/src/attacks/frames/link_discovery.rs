//! A flood of ARP requests, which no rule drops.

use crate::{
    Flood, MAC,
    attacks::{
        row::Row,
        stage::{Stage, honest_sources},
    },
};

/// Requests per second that may pass, and at once.
const CAP: u64 = 10_000;
const NEWCOMERS: u32 = 2_000;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s; deny add 11.0.0.0/8");
    let request = Flood::of(request());
    stage.during(
        |_| request.clone(),
        |stage| stage.honest(&honest_sources(NEWCOMERS), 5 * u64::from(NEWCOMERS), 10_000),
    );
    let most = stage.bound(CAP, CAP);
    stage.row("ARP requests at full speed, with the address of a denied source", Some(most))
}

/// The cap of each interface is its own.
pub(in crate::attacks) fn play_elsewhere() -> Row {
    let mut stage = Stage::new("--packets 1000/s");
    let request = Flood::of(request());
    stage.during(|_| request.clone(), |stage| stage.honest(&request, 5_000, 2_500));
    let most = stage.bound(CAP, CAP);
    stage.row("ARP requests at full speed, beside those of another interface", Some(most))
}

/// Returns a request of 11.0.0.1 for 10.9.0.1 over Ethernet.
fn request() -> Vec<u8> {
    let header = [&[0xff; 6][..], &MAC, &[0x08, 0x06]].concat();
    let kinds = [0, 1, 0x08, 0, 6, 4, 0, 1];
    let addresses = [&MAC[..], &[11, 0, 0, 1], &[0; 6], &[10, 9, 0, 1], &[0; 18]].concat();
    [&header[..], &kinds, &addresses].concat()
}
