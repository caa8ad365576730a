//! Soft and elastic limits, by counters.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Frame, PATIENCE, Ratelimit, Sandbox, VICTIM_LINK};

use crate::receiver::{FLOODER, PORT, alone, assert_within, receiving};

fn count(ratelimit: &Ratelimit<'_>, reason: &str) -> u64 {
    ratelimit.json("status")["reasons"][reason]["packets"].as_u64().unwrap()
}

#[test]
fn a_soft_limit_admits_its_allowance_and_counts_it_separately() {
    for (front, kind) in [
        ("on", "token-bucket"),
        ("off", "token-bucket"),
        ("on", "leaky-bucket"),
        ("on", "fixed-window"),
        ("on", "sliding-window"),
    ] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        let limit = format!("--packets 1000/d --algorithm {kind} --throttle soft=10%");
        ratelimit.ok(&format!("attach {VICTIM_LINK} --front {front} {limit}"));
        // A token returns every 86 seconds, and a soft token every 14 minutes.
        let begin = Instant::now();
        let ((), received) = receiving(&sandbox, |_| Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 5_000));
        let [within, soft, over] =
            ["within-limit", "within-soft", "over-packets"].map(|reason| count(&ratelimit, reason));
        let back = begin.elapsed().as_secs() / 86 + 1;
        assert!((1_000..=1_000 + back).contains(&within), "{front}, {kind}: {within}");
        assert!((100..=101).contains(&soft), "{front}, {kind}: {soft}");
        assert_eq!((received.from(FLOODER).count, over), (within + soft, 5_000 - within - soft), "{front}, {kind}");
        ratelimit.ok("detach --all");
    }
}

#[test]
fn a_soft_limit_of_ten_percent_admits_a_tenth_more_under_a_flood() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (rate, burst) = (2_000.0, 1_000.0);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets {rate}/s --burst {burst} --throttle soft=10%"));
    let (offered, received) =
        receiving(&sandbox, |_| Flood::of(Frame::udp(FLOODER, PORT)).send_for(&sandbox, Duration::from_secs(2)));
    let [within, soft, over] = ["within-limit", "within-soft", "over-packets"].map(|reason| count(&ratelimit, reason));
    let arrivals = received.from(FLOODER);
    assert_eq!((arrivals.count, within + soft + over), (within + soft, offered));
    assert_within(within, burst + rate * arrivals.seconds(), 0.02);
    assert_within(soft, within as f64 / 10.0, 0.02);
    ratelimit.ok("detach --all");
}

/// A source without a limit.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 67);

#[test]
fn an_elastic_limit_uses_the_capacity_that_others_leave() {
    let _alone = alone();
    for kind in ["token-bucket", "sliding-log"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        // The interface's burst is ten milliseconds, a thousand packets at any rate.
        ratelimit.ok(&format!("attach {VICTIM_LINK} --capacity 100k/s"));
        ratelimit.ok(&format!("limit set {FLOODER} --packets 1/d --algorithm {kind} --throttle elastic"));
        let counts = || ["within-limit", "within-capacity", "over-packets"].map(|reason| count(&ratelimit, reason));
        Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 800);
        assert_eq!(counts(), [1, 799, 0], "{kind}: packets within capacity were dropped");

        // Other traffic uses the whole capacity and loses nothing.
        let last = thread::available_parallelism().unwrap().get() - 1;
        let others = Flood::of(Frame::udp(OTHER, PORT)).on_cpu(last).start(&sandbox);
        while others.sent() < 200_000 {
            thread::yield_now();
        }
        Flood::of(Frame::udp(FLOODER, PORT)).pace(2_000).on_cpu(0).send(&sandbox, 2_000);
        let sent = others.stop();
        let [within, elastic, over] = counts();
        assert_eq!((within, elastic + over), (1 + sent, 799 + 2_000), "{kind}");
        assert!(over >= 1_000, "{kind}: only {over} of 2000 packets were dropped beside {sent} others");

        // The free capacity is available at once: no command, and only the time that the debt needs to drain.
        let deadline = Instant::now() + PATIENCE;
        let one = Flood::of(Frame::udp(FLOODER, PORT));
        loop {
            one.send(&sandbox, 1);
            if counts()[1] > elastic {
                break;
            }
            assert!(Instant::now() < deadline, "{kind}: the capacity did not become free");
        }
        // Without a capacity the limit is hard.
        ratelimit.ok(&format!("attach {VICTIM_LINK} --capacity off"));
        let [within, elastic, over] = counts();
        one.send(&sandbox, 100);
        assert_eq!(counts(), [within, elastic, over + 100], "{kind}");
        ratelimit.ok("detach --all");
    }
}
