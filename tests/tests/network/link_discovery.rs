//! The cap on ARP and neighbour discovery, with several interfaces.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, VICTIM_LINK};

use crate::receiver::FLOODER;

const LINKS: [&str; 2] = ["guest0", "guest1"];

#[test]
fn a_flood_of_arp_takes_nothing_from_another_interface() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.add_link(LINKS[0], LINKS[1]);
    ratelimit.ok(&format!("attach {VICTIM_LINK} {}", LINKS[0]));
    let mut arp = Frame::udp(FLOODER, 9).bytes();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let flood = Flood::of(arp);
    let over_cap = || {
        let reasons = ratelimit.json("status")["reasons"].clone();
        reasons["link-discovery-over-cap"]["packets"].as_u64().unwrap_or_default()
    };
    flood.clone().through(LINKS[1]).send(&sandbox, 300_000);
    let before = over_cap();
    assert!(before > 0, "the flood has not spent the cap");
    flood.send(&sandbox, 5_000);
    assert_eq!(over_cap(), before);
    ratelimit.ok("detach --all");
}
