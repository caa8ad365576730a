//! Forged addresses that spend the budget for new buckets with as few packets as possible, beside honest sources.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use ratelimit_dataplane::program::loader::Settings;

use crate::{
    Flood, Frame,
    attacks::{
        row::Row,
        stage::{FORGED, HONEST, PORT, Stage},
    },
};

/// Half of the burst and one packet.
const EACH: u64 = 6;
const BURST: u64 = 10;
/// Rounds of a fifth of a second, each from new addresses.
const ROUND: Duration = Duration::from_millis(200);
const ROUNDS: u32 = 20;
const ADDRESSES: u32 = 5_000;
/// Packets of the flood in a second.
const PER_SECOND: u64 = 5 * EACH * ADDRESSES as u64;
/// In these first rounds, the flood spends what the budget has saved.
const BEFORE: u32 = 10;
/// Honest sources of each later round, each with a whole burst.
const HONEST_EACH: u32 = 30;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 10/s --admissions 1k/s");
    for round in 0..ROUNDS {
        let begin = Instant::now();
        let first = Ipv4Addr::from_bits(FORGED.to_bits() + round * ADDRESSES);
        let flood = Flood::of(Frame::udp(first, PORT)).sources(ADDRESSES).on_cpu(0);
        stage.attack(&flood, EACH * u64::from(ADDRESSES));
        if round >= BEFORE {
            let first = Ipv4Addr::from_bits(HONEST.to_bits() + round * HONEST_EACH);
            let bursts = Flood::of(Frame::udp(first, PORT)).sources(HONEST_EACH);
            stage.honest(&bursts, BURST * u64::from(HONEST_EACH), 20_000);
        }
        thread::sleep(ROUND.saturating_sub(begin.elapsed()));
    }
    let created = stage.ratelimit().json("status")["admission"]["created"].as_u64();
    assert!(created < Some(u64::from(ROUNDS * ADDRESSES / 2)), "the budget was not spent: {created:?} buckets");
    // What the flood spends in the cells of these sources within a second.
    let (honest, cells) = (u64::from((ROUNDS - BEFORE) * HONEST_EACH), u64::from(Settings::default().cells));
    let attack = "half a burst and a packet of each of 25,000 new addresses per second, beside bursts of other sources";
    Row { may_lose: honest * PER_SECOND / cells, ..stage.row(attack, None) }
}
