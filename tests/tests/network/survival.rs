//! Established sources beside a flood from forged addresses.

use std::{net::Ipv4Addr, thread, time::Instant};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, VICTIM_LINK};

use crate::receiver::{PORT, Received, alone, receiving};

const ESTABLISHED: u32 = 200;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 9, 7, 1);
/// Packets per established source during the flood.
const EACH: u64 = 30;
/// A port without a listener.
const ELSEWHERE: u16 = 10;

/// Returns traffic of all established sources at this total rate.
fn established(pace: u64) -> Flood {
    // The flood uses the last CPU and its queue.
    Flood::of(Frame::udp(FIRST, PORT)).sources(ESTABLISHED).pace(pace).on_cpu(0)
}

/// Sends from the established sources during a flood. Returns the packets and the seconds of the flood.
fn beside_a_flood(sandbox: &Sandbox) -> (u64, f64) {
    let last = thread::available_parallelism().unwrap().get() - 1;
    let begin = Instant::now();
    let flood = Flood::of(Frame::udp(Ipv4Addr::new(192, 0, 2, 1), ELSEWHERE)).endless(0).on_cpu(last).start(sandbox);
    established(2_000).send(sandbox, u64::from(ESTABLISHED) * EACH);
    let sent = flood.stop();
    assert!(sent > 200_000, "too few packets for a flood: {sent} packets");
    (sent, begin.elapsed().as_secs_f64())
}

#[track_caller]
fn assert_complete(received: &Received, each: u64) {
    for number in 0..ESTABLISHED {
        let address = Ipv4Addr::from(u32::from(FIRST) + number);
        assert_eq!(received.from(address).count, each, "{address} has lost packets");
    }
}

#[test]
fn established_sources_lose_nothing_beside_a_flood_from_forged_sources() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 100/s --burst 100"));
    let ((sent, _), received) = receiving(&sandbox, |_| beside_a_flood(&sandbox));
    assert_complete(&received, EACH);
    let reasons = ratelimit.json("status")["reasons"].clone();
    let counted = |reason: &str| reasons[reason]["packets"].as_u64().unwrap();
    // No source of the flood exceeds a limit.
    assert_eq!(counted("within-limit"), sent + u64::from(ESTABLISHED) * EACH);
    assert_eq!(counted("not-admitted") + counted("over-packets") + counted("table-full"), 0);
    ratelimit.ok("detach --all");
}

#[test]
fn a_limit_of_unknown_sources_stops_the_flood_and_spares_known_sources() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let unknown = 1_000u32;
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 100/s --burst 100 --unknown {unknown}/s"));
    let before = 12;
    let passed = || ratelimit.json("status")["reasons"]["within-limit"]["packets"].as_u64().unwrap();
    let ((sent, seconds, of_flood), received) = receiving(&sandbox, |_| {
        // Over three seconds, below the rate of unknown sources. All sources are known afterwards.
        established(800).send(&sandbox, u64::from(ESTABLISHED) * before);
        assert_eq!(passed(), u64::from(ESTABLISHED) * before);
        let (sent, seconds) = beside_a_flood(&sandbox);
        (sent, seconds, passed() - u64::from(ESTABLISHED) * (before + EACH))
    });
    assert_complete(&received, before + EACH);
    // The burst is a fifth of a second, and each CPU may hold one more batch.
    let cpus = thread::available_parallelism().unwrap().get();
    let most = f64::from(unknown) * (seconds + 0.2) + cpus as f64;
    assert!(of_flood as f64 <= most, "{of_flood} of {sent} packets passed, {most:.0} may");
    assert!(of_flood as f64 >= most / 2.0, "{of_flood} of {sent} packets passed, {most:.0} may");
    let over = ratelimit.json("status")["reasons"]["over-unknown"]["packets"].as_u64().unwrap();
    assert_eq!(of_flood + over, sent);
    ratelimit.ok("detach --all");
}
