//! Denied sources that hide behind tags, IP options, fragments, IPv6 extension headers and tunnels.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    attacks::{
        row::Row,
        stage::{PORT, Stage},
    },
    encapsulations,
};

const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 66);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x66);
/// Packets of each kind.
const EACH: usize = 1_000;
/// Bytes of the longest frame on the link.
const LONGEST: usize = 1_514;

pub(in crate::attacks) fn play() -> Row {
    let mut stage = Stage::new("--packets 1000/s; deny add 192.0.2.66; deny add 2001:db8::66");
    for source in [IpAddr::V4(V4), V6.into()] {
        for kind in encapsulations(source, PORT).iter().filter(|kind| kind.frame.len() <= LONGEST) {
            stage.attack_raw(&kind.frame, EACH);
        }
    }
    stage.row("denied sources behind VLAN tags, IP options, fragments, extension headers and tunnels", Some(0))
}
