//! Bans hold without any process of the product.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::{identity::source::Source, limits::limit::SECOND, rules::ban};
use ratelimit_dataplane::{pins::layout::PINS, sys::host};
use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, VICTIM_IPV4, VICTIM_LINK, turn_into_layout_12};
use serde_json::json;

use crate::receiver::{FLOODER, PORT, alone};

/// A port without a listener.
const ELSEWHERE: u16 = 10;
const BAN: Duration = Duration::from_secs(2);
/// Tolerance for the end of a ban: some ticks of the kernel's coarse clock.
const LATE: Duration = Duration::from_millis(50);

#[test]
fn a_ban_survives_processes_and_floods_and_expires_on_time() {
    let _alone = alone();
    for front in ["on", "off"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok(&format!(
            "attach {VICTIM_LINK} --packets 100/s --burst 20 --ban 2s --ban-after 100 --max-sources 1000 --front {front}"
        ));
        sandbox.add_peer_address(FLOODER);
        let client = sandbox.peer(|| UdpSocket::bind((FLOODER, 0))).unwrap();
        client.connect(SocketAddr::from((VICTIM_IPV4, PORT))).unwrap();
        let server = sandbox.victim(|| UdpSocket::bind((VICTIM_IPV4, PORT))).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();

        // `Instant` uses the clock of the kernel's bans.
        let before = Instant::now();
        Flood::of(Frame::udp(FLOODER, ELSEWHERE)).send(&sandbox, 1_000);
        let banned = Instant::now();
        assert_eq!(ratelimit.json("deny list")[0]["origin"], "ban", "{front}");

        // From here on no command runs. Sources of the flood evict every entry of the bucket maps.
        let last = thread::available_parallelism().unwrap().get() - 1;
        let everywhere = Frame::udp(Ipv4Addr::new(192, 0, 2, 1), ELSEWHERE);
        let flood = Flood::of(everywhere).endless(0).on_cpu(last).start(&sandbox);
        while flood.sent() < 50_000 {
            assert!(banned.elapsed() < BAN, "{front}: the flood is too slow");
            thread::yield_now();
        }
        let spoofed = flood.stop();

        // Each packet carries its number, so the first one that passes tells when it was sent.
        let mut sent: Vec<Instant> = Vec::new();
        let through = loop {
            let now = Instant::now();
            assert!(now < banned + 10 * BAN, "{front}: the ban does not end");
            client.send(&(sent.len() as u64).to_be_bytes()).unwrap();
            sent.push(now);
            let mut number = [0; 8];
            if server.recv(&mut number).is_ok() {
                break u64::from_be_bytes(number) as usize;
            }
        };
        let received = Instant::now();
        assert!(received >= before + BAN, "{front}: lifted after {:?} by {spoofed} packets", received - before);
        assert!(through > 0, "{front}: no packet was sent during the ban");
        // The source has stayed within its limit since, so every packet after the ban passes.
        let refused = sent[through - 1] - banned;
        assert!(refused < BAN + LATE, "{front}: a packet {refused:?} after the last of the flood was dropped");

        assert!(ratelimit.json("deny list").as_array().unwrap().is_empty(), "{front}");
        ratelimit.ok("detach --all");
    }
}

#[test]
fn an_upgrade_from_layout_12_keeps_the_bans_in_force() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1000/s"));
    ratelimit.ok("deny add 2001:db8::bad");
    let now = host::now();
    let bans = [(66, now + 600 * SECOND), (67, now.saturating_sub(1)), (68, u64::MAX)].map(|(host, expires)| {
        let source = Source::v4([10, 9, 0, host]);
        (source, ban::rule(&source, expires))
    });
    sandbox.victim(|| turn_into_layout_12(Path::new(PINS), &bans));
    assert!(ratelimit.fails("status").contains("layout 12"));
    ratelimit.ok("upgrade");
    assert_eq!(ratelimit.json("status")["own"]["per_second"], 1_000_000);
    let listed = ratelimit.json("deny list");
    let bans = listed.as_array().unwrap().iter().filter(|row| row["origin"] == "ban");
    let sources: Vec<_> = bans.map(|row| [&row["source"], &row["origin"]]).collect();
    assert_eq!(sources, [[&json!("10.9.0.66"), &json!("ban")], [&json!("10.9.0.68"), &json!("ban")]]);
    assert!((590..=600).contains(&listed[0]["expires_in_seconds"].as_u64().unwrap()), "{listed}");
    Flood::of(Frame::udp(FLOODER, PORT)).sources(3).send(&sandbox, 30);
    let reasons = ratelimit.json("status")["reasons"].clone();
    assert_eq!((&reasons["banned"]["packets"], &reasons["within-limit"]["packets"]), (&json!(20), &json!(10)));
    assert_eq!(ratelimit.ok("deny del 10.9.0.66"), "10.9.0.66: no longer banned\n");
    Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("status")["reasons"]["within-limit"]["packets"], 20);
    // Layout 12 marked no parts of IPv6 sources.
    let part = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xbad);
    Flood::of(Frame::udp(part, PORT)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 10);
    ratelimit.ok("detach --all");
}
