//! Real packets through a real driver: what a limit lets through to a socket, while a flood runs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, Sink, VICTIM_IPV4, VICTIM_LINK};
use serde_json::Value;

const PORT: u16 = 9;
const FLOODER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);
const BEHAVED: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 10);

/// Runs `work` while a socket of the victim counts what arrives, by address.
fn receiving<T>(sandbox: &Sandbox, work: impl FnOnce() -> T) -> (T, HashMap<IpAddr, u64>) {
    let socket = sandbox.victim(|| UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, PORT))).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut received = HashMap::new();
            loop {
                match socket.recv_from(&mut [0; 64]) {
                    Ok((_, from)) => *received.entry(from.ip().to_canonical()).or_insert(0) += 1,
                    // Only an empty socket ends it, so that nothing that has arrived goes uncounted.
                    Err(_) if done.load(Ordering::Relaxed) => return received,
                    Err(_) => {}
                }
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, receiver.join().unwrap())
    })
}

/// What the product says of one source.
fn source(ratelimit: &Ratelimit<'_>, name: &str) -> Value {
    let sources = ratelimit.json("sources -n 1000");
    sources.as_array().unwrap().iter().find(|row| row["source"] == name).unwrap_or(&Value::Null).clone()
}

fn passed(row: &Value) -> u64 {
    row["passed"]["packets"].as_u64().unwrap_or(0)
}

#[track_caller]
fn assert_within(actual: u64, expected: f64, tolerance: f64) {
    let difference = (actual as f64 - expected).abs() / expected;
    assert!(difference <= tolerance, "{actual} is {:.1} % off {expected:.0}", difference * 100.0);
}

#[test]
fn a_source_over_its_limit_is_held_and_one_under_it_loses_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (rate, burst) = (2_000, 100);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets {rate}/s --burst {burst}"));
    sandbox.add_peer_address(BEHAVED);
    let client = sandbox.peer(|| UdpSocket::bind((BEHAVED, 0))).unwrap();
    client.connect(SocketAddr::from((VICTIM_IPV4, PORT))).unwrap();

    let ((offered, seconds, sent), received) = receiving(&sandbox, || {
        let flood = Flood::of(Frame::udp(FLOODER, PORT)).start(&sandbox);
        let begin = Instant::now();
        let mut sent = 0;
        while begin.elapsed() < Duration::from_secs(3) {
            client.send(&[0; 18]).unwrap();
            sent += 1;
            thread::sleep(Duration::from_millis(2));
        }
        let offered = flood.stop();
        (offered, begin.elapsed().as_secs_f64(), sent)
    });

    assert!(offered > 500_000, "that was no flood: {offered} packets");
    assert_within(received[&IpAddr::from(FLOODER)], f64::from(burst) + f64::from(rate) * seconds, 0.02);
    assert_eq!(received[&IpAddr::from(BEHAVED)], sent, "the source under its limit lost packets");
    // What the product counts is what has happened.
    let flooder = source(&ratelimit, "10.9.0.66");
    assert_eq!(passed(&flooder), received[&IpAddr::from(FLOODER)]);
    assert_eq!(passed(&flooder) + flooder["dropped"]["packets"].as_u64().unwrap(), offered);
    let behaved = source(&ratelimit, "10.9.0.10");
    assert_eq!((passed(&behaved), &behaved["dropped"]["packets"]), (sent, &Value::from(0)));
    ratelimit.ok("detach --all");
}

#[test]
fn a_limit_of_bytes_is_held() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --bytes 1MB/s --burst 10"));
    let flood = Flood::of(Frame::udp([0xfd00, 9, 0, 7, 0, 0, 0, 1], PORT).length(1_000));
    let begin = Instant::now();
    let flooding = flood.start(&sandbox);
    thread::sleep(Duration::from_secs(2));
    flooding.stop();
    let seconds = begin.elapsed().as_secs_f64();
    let row = source(&ratelimit, "fd00:9:0:7::/64");
    assert_within(row["passed"]["bytes"].as_u64().unwrap(), 10.0 * 1_514.0 + 1e6 * seconds, 0.02);
    ratelimit.ok("detach --all");
}

#[test]
fn every_change_acts_at_once_on_a_source_that_is_flooding() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 10/s --burst 1"));
    let flood = Flood::of(Frame::udp(FLOODER, PORT)).start(&sandbox);
    let during = |seconds: f64| {
        let (before, begin) = (passed(&source(&ratelimit, "10.9.0.66")), Instant::now());
        thread::sleep(Duration::from_secs_f64(seconds));
        let after = passed(&source(&ratelimit, "10.9.0.66"));
        (after - before, begin.elapsed().as_secs_f64())
    };
    during(0.1);

    for (command, rate) in [
        ("limit set default --packets 20k/s --burst 1", 20_000.0),
        ("limit set 10.9.0.0/24 --packets 3k/s --burst 1", 3_000.0),
        ("limit set 10.9.0.66 --packets 8k/s --burst 1", 8_000.0),
        ("limit del 10.9.0.66", 3_000.0),
        ("limit del 10.9.0.0/24", 20_000.0),
    ] {
        ratelimit.ok(command);
        let (passed, seconds) = during(1.0);
        // Between reading the counters and the clock other processes may run.
        assert_within(passed, rate * seconds, 0.05);
    }
    ratelimit.ok("deny add 10.9.0.66");
    assert_eq!(during(0.3).0, 0, "packets of a denied source passed");
    ratelimit.ok("deny del 10.9.0.66");
    ratelimit.ok("allow add 10.9.0.66");
    let sent = flood.sent();
    let (allowed, _) = during(0.3);
    assert!(allowed > (flood.sent() - sent) / 2, "an allowed source passes: {allowed}");
    flood.stop();
    ratelimit.ok("detach --all");
}

#[test]
fn an_upgrade_in_place_lets_nothing_through() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let burst = 10;
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/h --burst {burst}"));
    let ((), received) = receiving(&sandbox, || {
        let flood = Flood::of(Frame::udp(FLOODER, PORT)).start(&sandbox);
        let program = || ratelimit.json("status")["interfaces"][0]["program_id"].as_u64().unwrap();
        let first = program();
        for _ in 0..20 {
            ratelimit.ok(&format!("attach {VICTIM_LINK}"));
        }
        assert_ne!(program(), first, "the program was not replaced");
        flood.stop();
    });
    assert_eq!(received[&IpAddr::from(FLOODER)], burst);
    ratelimit.ok("detach --all");
}

#[test]
fn one_source_has_one_limit_on_all_interfaces() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // A second wire, both ends at the victim.
    sandbox.ip("link add eth1 type veth peer name far1");
    sandbox.ip("link set eth1 up");
    sandbox.ip("link set far1 up");
    ratelimit.ok(&format!("attach {VICTIM_LINK} eth1 --packets 1/h --burst 15"));
    let frame = Frame::udp(FLOODER, PORT).bytes();
    Flood::of(frame.clone()).send(&sandbox, 10);
    sandbox.victim(|| ratelimit_tests::send_raw("far1", &frame, 10));
    let row = source(&ratelimit, "10.9.0.66");
    assert_eq!((passed(&row), row["dropped"]["packets"].as_u64()), (15, Some(5)));
    ratelimit.ok("detach --all");
}

#[test]
fn generic_mode_holds_limits_too() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --mode generic --packets 1/h --burst 5"));
    assert_eq!(ratelimit.json("status")["interfaces"][0]["mode"], "generic");
    let ((), received) = receiving(&sandbox, || Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 1_000));
    assert_eq!(received[&IpAddr::from(FLOODER)], 5);
    ratelimit.ok("detach --all");
}

#[test]
fn detaching_lets_everything_through_again() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK}"));
    ratelimit.ok("deny add 10.9.0.0/16");
    ratelimit.ok(&format!("detach {VICTIM_LINK}"));
    let sink = Sink::passing(&sandbox, VICTIM_LINK);
    Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 100);
    assert_eq!(sink.received(), 100);
    drop(sink);
    // The rules were kept.
    ratelimit.ok(&format!("attach {VICTIM_LINK}"));
    Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 100);
    ratelimit.ok("detach --all");
}
