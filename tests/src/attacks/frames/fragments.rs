//! Fragments of one source. Later ones have no ports, so no rule of a service matches them.

use std::net::Ipv4Addr;

use etherparse::{IpFragOffset, Ipv4Header};

use crate::{
    Flood, Wrap,
    attacks::{
        row::Row,
        stage::{Stage, cpus, honest_sources},
    },
    framed,
};

const SOURCE: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
/// Offset of later fragments in units of eight bytes.
const LATER: u16 = 185;
const NEWCOMERS: u32 = 2_000;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s; limit set default --service udp/53 --packets 10/s");
    let floods = [0, LATER].map(|offset| Flood::of(fragment(offset)));
    stage.during(
        |cpu| floods[cpu as usize % floods.len()].clone(),
        |stage| stage.honest(&honest_sources(NEWCOMERS), 5 * u64::from(NEWCOMERS), 10_000),
    );
    // A machine with one CPU has one flood, of first fragments.
    let later = if cpus() > 1 { stage.bound(1_000, 1_000) } else { 0 };
    let most = later + stage.bound(10, 10);
    stage.row("first and later fragments of one source to a limited port, at full speed", Some(most))
}

fn fragment(offset: u16) -> Vec<u8> {
    let change = |header: &mut Ipv4Header| {
        header.dont_fragment = false;
        header.more_fragments = true;
        header.fragment_offset = IpFragOffset::try_new(offset).expect("the offset fits");
    };
    framed(&Wrap::udp(53).v4(SOURCE, change), &[])
}
