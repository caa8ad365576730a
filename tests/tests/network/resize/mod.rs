//! Map sizes that change under traffic.

mod interrupted;

use std::net::Ipv4Addr;

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, VICTIM_LINK};

use crate::receiver::{FLOODER, PORT, alone, receiving};

/// Packets of a source until it waits for an hour.
const BURST: u64 = 10;

#[test]
fn a_resize_lets_no_packet_through() {
    for (attached, changes) in [
        ("", ["--max-sources 500", "--cells 256", "--cells 4096 --max-sources 9000", "--cells 128 --max-sources 10"]),
        ("--front off", ["--max-sources 500", "--max-sources 50000", "--max-sources 100", "--max-sources 2000"]),
        ("--algorithm sliding-window", ["--max-sources 500", "--cells 256", "--max-sources 100", "--cells 1024"]),
        (
            "--algorithm sliding-log",
            ["--max-sliding-logs 500", "--max-sliding-logs 100", "--cells 1024", "--max-sliding-logs 2000"],
        ),
    ] {
        floods_while(attached, &changes);
    }
}

fn floods_while(attached: &str, changes: &[&str]) {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let burst = if attached.contains("sliding") { String::new() } else { format!("--burst {BURST}") };
    let rate = if burst.is_empty() { BURST } else { 1 };
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets {rate}/h {burst} {attached}"));
    let ((), received) = receiving(&sandbox, |_| {
        let flood = Flood::of(Frame::udp(FLOODER, PORT)).start(&sandbox);
        for change in changes {
            ratelimit.ok(&format!("attach {VICTIM_LINK} {change}"));
        }
        let offered = flood.stop();
        println!("{attached}: {} changes during {offered} packets", changes.len());
        assert!(offered > 10_000);
    });
    assert_eq!(received.from(FLOODER).count, BURST, "{attached}");
    ratelimit.ok("detach --all");
}

/// Sources that a continuing flood keeps over their limit.
const SOURCES: u32 = 2_000;

#[test]
fn a_resize_moves_every_bucket_with_its_debt_and_counters() {
    for front in ["on", "off"] {
        let _alone = alone();
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok(&format!(
            "attach {VICTIM_LINK} --packets 1/h --burst {BURST} --admissions 1M/s --sample off --front {front}"
        ));
        let flood = Flood::of(Frame::udp(Ipv4Addr::new(10, 8, 0, 0), PORT)).sources(SOURCES);
        flood.send(&sandbox, u64::from(SOURCES) * BURST * 2);
        let passed = || ratelimit.json("status")["passed"]["packets"].as_u64().unwrap();
        let before = passed();
        for change in ["--max-sources 5000", "--max-sources 200000", "--max-sources 3000"] {
            let running = flood.start(&sandbox);
            ratelimit.ok(&format!("attach {VICTIM_LINK} {change}"));
            running.stop();
            assert_eq!(passed(), before, "{front}, {change}");
        }
        assert_eq!(ratelimit.json("status")["sources"]["tracked"], SOURCES);
        if front == "off" {
            let rows = ratelimit.json(&format!("sources -n {SOURCES}"));
            assert!(rows.as_array().unwrap().iter().all(|row| row["passed"]["packets"] == BURST));
        }
        ratelimit.ok("detach --all");
    }
}

#[test]
fn a_resize_moves_cells_with_their_debt() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/h --burst {BURST} --cells 65536"));
    // The cell alone admitted half a burst, so no source has a bucket.
    let flood = Flood::of(Frame::udp(Ipv4Addr::new(10, 8, 0, 0), PORT)).sources(200);
    let passed = || ratelimit.json("status")["passed"]["packets"].as_u64().unwrap();
    flood.send(&sandbox, 200 * BURST / 2);
    let first = passed();
    for change in ["--cells 131072", "--cells 32768", "--cells 65536"] {
        ratelimit.ok(&format!("attach {VICTIM_LINK} {change}"));
    }
    flood.send(&sandbox, 200 * BURST * 3);
    let all = passed();
    assert!(all <= 200 * BURST && all > first, "{all} of {} packets after {first}", 200 * BURST);
    ratelimit.ok("detach --all");
}
