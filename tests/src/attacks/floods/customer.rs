//! One customer's IPv6 prefix, in which each /64 is a source, beside a customer with another prefix.

use std::net::Ipv6Addr;

use crate::{
    Flood, Frame,
    attacks::{
        row::Row,
        stage::{PORT, Stage},
    },
};

const ATTACKER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x66, 0, 0, 0, 0, 1);
/// Sources of a /48.
const SOURCES: u32 = 1 << 16;
const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 1);
const OTHERS: u32 = 1_000;
/// Packets per second of the other customer, below the limit of a /48.
const PACE: u64 = 2_500;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s");
    flood(&mut stage);
    stage.row("all 65,536 sources of one IPv6 /48 at full speed", None)
}

pub(in crate::attacks) fn play_with_a_parent() -> Row {
    let mut stage = Stage::new("--packets 1000/s --parent /48=10k/s");
    flood(&mut stage);
    let most = stage.bound(10_000, 10_000);
    stage.row("the same", Some(most))
}

/// Addresses of one source.
pub(in crate::attacks) fn play_within_a_source() -> Row {
    let mut stage = Stage::new("--packets 1000/s");
    let forged = Flood::of(Frame::udp(ATTACKER, PORT)).addresses(SOURCES);
    stage.during(|_| forged.clone(), |stage| stage.honest(&others(), 5 * u64::from(OTHERS), PACE));
    let most = stage.bound(1_000, 1_000);
    // The first packets of a new bucket can be refused beside an offender, for a millisecond at this rate.
    let each = (0..OTHERS).map(|number| Ipv6Addr::from(OTHER.to_bits() + (u128::from(number) << 64)));
    let may_lose = stage.neighbours(ATTACKER, each);
    Row { may_lose, ..stage.row("65,536 addresses of one IPv6 /64 at full speed", Some(most)) }
}

fn others() -> Flood {
    Flood::of(Frame::udp(OTHER, PORT)).sources(OTHERS)
}

fn flood(stage: &mut Stage) {
    let others = others();
    stage.honest(&others, OTHERS.into(), PACE);
    stage.begin();
    let forged = Flood::of(Frame::udp(ATTACKER, PORT)).sources(SOURCES).in_random_order();
    stage.during(|_| forged.clone(), |stage| stage.honest(&others, 5 * u64::from(OTHERS), PACE));
}
