//! Limits of packets and bytes.

use std::{
    net::{SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, Sink, VICTIM_IPV4, VICTIM_LINK};
use serde_json::Value;

use crate::receiver::{BEHAVED, FLOODER, PORT, alone, assert_within, passed, receiving, source};

#[test]
fn a_source_over_its_limit_is_limited_and_one_below_it_loses_nothing() {
    for front in ["on", "off"] {
        holds_who_is_over_and_spares_who_is_under(front);
    }
}

fn holds_who_is_over_and_spares_who_is_under(front: &str) {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // The burst covers times in which the flood has no CPU.
    let (rate, burst) = (2_000, 1_000);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets {rate}/s --burst {burst} --front {front}"));
    sandbox.add_peer_address(BEHAVED);
    let client = sandbox.peer(|| UdpSocket::bind((BEHAVED, 0))).unwrap();
    client.connect(SocketAddr::from((VICTIM_IPV4, PORT))).unwrap();

    let ((offered, sent), received) = receiving(&sandbox, |_| {
        // Sockets send through the first queue, so the flood uses the last CPU's queue.
        let last = thread::available_parallelism().unwrap().get() - 1;
        let flood = Flood::of(Frame::udp(FLOODER, PORT)).on_cpu(last).start(&sandbox);
        let begin = Instant::now();
        let mut sent = 0;
        while begin.elapsed() < Duration::from_secs(4) {
            client.send(&[0; 18]).unwrap();
            sent += 1;
            thread::sleep(Duration::from_millis(2));
        }
        (flood.stop(), sent)
    });

    let flood = received.from(FLOODER);
    assert!(offered > 10 * flood.count, "too few packets for a flood: {offered} packets");
    assert_within(flood.count, f64::from(burst) + f64::from(rate) * flood.seconds(), 0.02);
    assert_eq!(received.from(BEHAVED).count, sent, "the source under its limit lost packets");
    // The product's counters match the traffic.
    let reasons = ratelimit.json("status")["reasons"].clone();
    let counted = |reason: &str| reasons[reason]["packets"].as_u64().unwrap();
    assert_eq!((counted("within-limit"), counted("over-packets")), (flood.count + sent, offered - flood.count));
    if front == "on" {
        // By source, the counters are an estimate, whose error is two standard deviations.
        let dropped = &source(&ratelimit, "10.9.0.66")["dropped"];
        let [packets, error] = ["packets", "error"].map(|field| dropped[field].as_u64().unwrap());
        assert!(packets.abs_diff(offered - flood.count) <= 2 * error, "{dropped} of {offered}");
        ratelimit.ok("detach --all");
        return;
    }
    let flooder = source(&ratelimit, "10.9.0.66");
    assert_eq!(passed(&flooder), flood.count);
    assert_eq!(passed(&flooder) + flooder["dropped"]["packets"].as_u64().unwrap(), offered);
    let behaved = source(&ratelimit, "10.9.0.10");
    assert_eq!((passed(&behaved), &behaved["dropped"]["packets"]), (sent, &Value::from(0)));
    ratelimit.ok("detach --all");
}

#[test]
fn a_byte_limit_holds() {
    for front in ["on", "off"] {
        holds_bytes(front);
    }
}

fn holds_bytes(front: &str) {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --bytes 1MB/s --burst 500 --front {front}"));
    let sender = "fd00:9:0:7::1".parse::<std::net::Ipv6Addr>().unwrap();
    let (_, received) = receiving(&sandbox, |_| {
        Flood::of(Frame::udp(sender, PORT).length(1_000)).send_for(&sandbox, Duration::from_secs(3))
    });
    let arrivals = received.from(sender);
    assert_within(arrivals.count * 1_000, 500.0 * 1_514.0 + 1e6 * arrivals.seconds(), 0.02);
    assert_eq!(ratelimit.json("status")["reasons"]["within-limit"]["bytes"], arrivals.count * 1_000);
    if front == "off" {
        let row = source(&ratelimit, "fd00:9:0:7::/64");
        assert_eq!(row["passed"]["bytes"], arrivals.count * 1_000);
    }
    ratelimit.ok("detach --all");
}

#[test]
fn every_rule_change_applies_at_once_to_a_flooding_source() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1k/s"));
    let ((), _) = receiving(&sandbox, |received| {
        let flood = Flood::of(Frame::udp(FLOODER, PORT)).start(&sandbox);
        let flood_on = || {
            let sent = flood.sent();
            while flood.sent() < sent + 100_000 {
                thread::yield_now();
            }
        };
        for (command, rate) in [
            ("limit set default --packets 20k/s --burst 100", 20_000.0),
            ("limit set 10.9.0.0/24 --packets 3k/s --burst 100", 3_000.0),
            ("limit set 10.9.0.66 --packets 8k/s --burst 100", 8_000.0),
            ("limit del 10.9.0.66", 3_000.0),
            ("limit del 10.9.0.0/24", 20_000.0),
        ] {
            ratelimit.ok(command);
            let before = received.up_to_now(FLOODER);
            thread::sleep(Duration::from_millis(500));
            let (passed, seconds) = received.up_to_now(FLOODER).since(&before);
            let most = 100.0 + rate * seconds + 1.0;
            assert!(passed as f64 <= most, "{command}: {passed} packets passed, and {most:.0} are allowed");
            // Other programs take the CPU from the flood for a part of the time.
            assert!(passed as f64 >= 0.5 * rate * seconds, "{command}: only {passed} packets in {seconds} s");
        }
        ratelimit.ok("deny add 10.9.0.66");
        let within = || ratelimit.json("status")["reasons"]["within-limit"]["packets"].clone();
        let before = within();
        flood_on();
        assert_eq!(within(), before, "packets of a denied source passed");
        ratelimit.ok("deny del 10.9.0.66");
        ratelimit.ok("allow add 10.9.0.66");
        assert_eq!(source(&ratelimit, "10.9.0.66")["policy"]["text"], "allow");
        let before = passed(&source(&ratelimit, "10.9.0.66"));
        flood_on();
        assert!(
            passed(&source(&ratelimit, "10.9.0.66")) >= before + 90_000,
            "packets of an allowed source were dropped"
        );
        flood.stop();
    });
    ratelimit.ok("detach --all");
}

#[test]
fn an_upgrade_in_place_lets_no_packet_through() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let burst = 10;
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/h --burst {burst}"));
    let ((), received) = receiving(&sandbox, |_| {
        let flood = Flood::of(Frame::udp(FLOODER, PORT)).start(&sandbox);
        let program = || ratelimit.json("status")["interfaces"][0]["program_id"].as_u64().unwrap();
        let first = program();
        for _ in 0..20 {
            ratelimit.ok(&format!("attach {VICTIM_LINK}"));
        }
        assert_ne!(program(), first, "the program was not replaced");
        assert!(flood.stop() > 100_000);
    });
    assert_eq!(received.from(FLOODER).count, burst);
    ratelimit.ok("detach --all");
}

#[test]
fn one_source_has_one_limit_on_all_interfaces() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // A second veth pair with both ends at the victim.
    sandbox.ip("link add eth1 type veth peer name far1");
    sandbox.ip("link set eth1 up");
    sandbox.ip("link set far1 up");
    // A sample would represent more packets than were sent.
    ratelimit.ok(&format!("attach {VICTIM_LINK} eth1 --packets 1/h --burst 15 --sample off"));
    let frame = Frame::udp(FLOODER, PORT).bytes();
    Flood::of(frame.clone()).send(&sandbox, 10);
    sandbox.victim(|| ratelimit_tests::send_raw("far1", &frame, 10));
    let row = source(&ratelimit, "10.9.0.66");
    assert_eq!((passed(&row), row["dropped"]["packets"].as_u64()), (15, Some(5)));
    ratelimit.ok("detach --all");
}

#[test]
fn limits_hold_in_generic_mode() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --mode generic --packets 1/h --burst 5"));
    assert_eq!(ratelimit.json("status")["interfaces"][0]["mode"], "generic");
    let ((), received) = receiving(&sandbox, |_| Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 1_000));
    assert_eq!(received.from(FLOODER).count, 5);
    ratelimit.ok("detach --all");
}

#[test]
fn after_detach_every_packet_passes() {
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
