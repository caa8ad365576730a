//! A denied source behind an interface without Ethernet headers.

use crate::{
    Frame, Ratelimit, Sandbox, Tun,
    attacks::{
        row::{Packets, Row},
        stage::PORT,
    },
};

const LINK: &str = "tun0";
const PACKETS: u64 = 50;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// A tag that reads like IPv6 and names no network, and another one, so that the kernel takes both away.
const TAGS: [u8; 8] = [0x60, 0, 0x81, 0, 0, 0, 0x08, 0];
/// The type of what follows, as GRE would say.
const TAG: u16 = 0x8100;

pub(in crate::attacks) fn play() -> Row {
    let attack = "packets of a denied source on a raw IP interface";
    denied(attack, Tun::new, |tun, packet| tun.receive(packet, PACKETS as usize))
}

pub(in crate::attacks) fn play_behind_tags() -> Row {
    denied("the same, behind VLAN tags that read like IPv6", Tun::typed, |tun, packet| {
        tun.receive_typed(TAG, &[&TAGS, packet].concat(), PACKETS as usize);
    })
}

fn denied(attack: &'static str, create: fn(&Sandbox, &str) -> Tun, send: impl FnOnce(&Tun, &[u8])) -> Row {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let tunnel = create(&sandbox, LINK);
    ratelimit.ok(&format!("attach {LINK} --mode generic"));
    ratelimit.ok("deny add 10.9.0.0/16");
    send(&tunnel, &Frame::udp([10, 9, 0, 66], PORT).bytes()[ETHERNET..]);
    let status = ratelimit.json("status");
    let count = |verdict: &str| status[verdict]["packets"].as_u64().expect("the status has no such count");
    let forged = Packets { offered: PACKETS, passed: count("passed") };
    assert_eq!(forged.passed + count("dropped"), PACKETS, "{status}");
    ratelimit.ok("detach --all");
    let setup = "--mode generic; deny add 10.9.0.0/16";
    Row { attack, setup, forged, may_pass: Some(0), honest: Packets::default(), may_lose: 0 }
}
