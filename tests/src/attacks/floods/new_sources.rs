//! A flood in which each packet has another forged source, beside sources that sent before.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Flood, Folder, Frame,
    attacks::{
        row::Row,
        stage::{FORGED, SHARE, Stage, cpus, from_everywhere, honest_sources},
    },
};

/// Sources that sent before.
pub(super) const ESTABLISHED: u32 = 1_000;
/// Seconds in which they sent, so that they are known.
const SECONDS: u32 = 3;
/// A second as the program counts it, 2³⁰ ns, and some ticks of its clock.
pub(super) const SECOND_AND_MORE: Duration = Duration::from_nanos((1 << 30) + 50_000_000);
const LIMITED: &str = "--packets 1000/s --unknown 10k/s";
/// Addresses of a list, all over the address space, but for the honest ones.
const LISTED: u32 = 1_000_000;
const LISTED_FROM: u32 = 0x1400_0000;
const LISTED_STEP: u32 = 2_503;
/// Packets of all unknown sources per second.
const UNKNOWN: u64 = 10_000;
/// Packets per second of all established sources.
const PACE: u64 = 2_500;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s");
    flood(&mut stage);
    stage.row("packets at full speed, each from a new address", None)
}

pub(in crate::attacks) fn play_with_unknown_limited() -> Row {
    let mut stage = Stage::new(LIMITED);
    flood(&mut stage);
    let most = most_unknown(&stage);
    stage.row("the same", Some(most))
}

/// Each packet comes from an address of which one in thousands is listed.
pub(in crate::attacks) fn play_beside_a_list() -> Row {
    let mut stage = Stage::new(LIMITED);
    let folder = Folder::new();
    let listed = (0..LISTED).map(|number| Ipv4Addr::from_bits(LISTED_FROM + number * LISTED_STEP).to_string() + "\n");
    let file = folder.add("feed", &listed.collect::<String>());
    stage.ratelimit().ok(&format!("list set feed {}", file.display()));
    flood(&mut stage);
    let most = most_unknown(&stage);
    stage.row("the same, beside a list of 1,000,000 addresses", Some(most))
}

/// Each packet has no ports.
pub(in crate::attacks) fn play_icmp() -> Row {
    let mut stage = Stage::new(LIMITED);
    establish(&mut stage);
    stage.during(|part| Flood::of(Frame::echo(FORGED)).endless(part * SHARE), send_established);
    let most = most_unknown(&stage);
    stage.row("pings at full speed, each from a new address", Some(most))
}

/// Returns how many packets of unknown sources may have passed. At most a fifth of a second of them may arrive at once,
/// and each CPU may hold a batch.
pub(super) fn most_unknown(stage: &Stage) -> u64 {
    stage.bound(UNKNOWN, UNKNOWN / 5 + cpus() as u64 * UNKNOWN / 1_000)
}

/// Makes honest sources known: they send in three different seconds, all together below the rate of unknown sources. Where
/// a busy machine sends them all at once, some are over it, and send once more.
pub(super) fn establish(stage: &mut Stage) {
    let are_known = |stage: &Stage| {
        let known = stage.ratelimit().json("status")["unknown"]["known"].as_u64();
        known.is_none_or(|known| known >= ESTABLISHED.into())
    };
    for second in 0.. {
        if second >= SECONDS && are_known(stage) {
            break;
        }
        assert!(second < 5 * SECONDS, "not all honest sources are known");
        let begin = Instant::now();
        stage.honest(&honest_sources(ESTABLISHED), ESTABLISHED.into(), PACE);
        thread::sleep(SECOND_AND_MORE.saturating_sub(begin.elapsed()));
    }
    stage.begin();
}

/// Sends five packets of each established source.
pub(super) fn send_established(stage: &mut Stage) {
    stage.honest(&honest_sources(ESTABLISHED), 5 * u64::from(ESTABLISHED), PACE);
}

fn flood(stage: &mut Stage) {
    establish(stage);
    stage.during(from_everywhere, send_established);
}
