//! Soft and elastic limits, by counting.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, VICTIM_LINK};

use crate::receiver::{FLOODER, PORT, alone, assert_within, receiving};

fn count(ratelimit: &Ratelimit<'_>, reason: &str) -> u64 {
    ratelimit.json("status")["reasons"][reason]["packets"].as_u64().unwrap()
}

#[test]
fn a_soft_limit_lets_its_share_more_through_and_counts_it_apart() {
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
        // A packet comes back every 86 seconds, and one of the share every 14 minutes.
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
fn under_a_flood_a_tenth_more_arrives_than_the_limit_says() {
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

/// Someone within its limits, which is none.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 67);

#[test]
fn an_elastic_limit_gives_way_to_the_room_that_others_leave() {
    let _alone = alone();
    for kind in ["token-bucket", "sliding-log"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        // What comes in ten milliseconds has room at once, whatever its pace: a thousand packets.
        ratelimit.ok(&format!("attach {VICTIM_LINK} --capacity 100k/s"));
        ratelimit.ok(&format!("limit set {FLOODER} --packets 1/d --algorithm {kind} --throttle elastic"));
        let counts = || ["within-limit", "within-capacity", "over-packets"].map(|reason| count(&ratelimit, reason));
        Flood::of(Frame::udp(FLOODER, PORT)).send(&sandbox, 800);
        assert_eq!(counts(), [1, 799, 0], "{kind}: there was room");

        // Others take all the room, and lose nothing.
        let last = thread::available_parallelism().unwrap().get() - 1;
        let others = Flood::of(Frame::udp(OTHER, PORT)).on_cpu(last).start(&sandbox);
        while others.sent() < 200_000 {
            thread::yield_now();
        }
        Flood::of(Frame::udp(FLOODER, PORT)).pace(2_000).on_cpu(0).send(&sandbox, 2_000);
        let sent = others.stop();
        let [within, elastic, over] = counts();
        assert_eq!((within, elastic + over), (1 + sent, 799 + 2_000), "{kind}");
        assert!(over >= 1_000, "{kind}: only {over} of 2000 packets had no room beside {sent} others");

        // What they leave is there again at once: it takes no command, and no time but that in which the debt runs off.
        let deadline = Instant::now() + Duration::from_secs(20);
        let one = Flood::of(Frame::udp(FLOODER, PORT));
        loop {
            one.send(&sandbox, 1);
            if counts()[1] > elastic {
                break;
            }
            assert!(Instant::now() < deadline, "{kind}: there is no room again");
        }
        // Without a capacity the limit is as hard as any other.
        ratelimit.ok(&format!("attach {VICTIM_LINK} --capacity off"));
        let [within, elastic, over] = counts();
        one.send(&sandbox, 100);
        assert_eq!(counts(), [within, elastic, over + 100], "{kind}");
        ratelimit.ok("detach --all");
    }
}
