//! Millions of packets per second through a veth pair, sent and received on one CPU.

use std::time::{Duration, Instant};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, Sink, VICTIM_LINK};

const TIME: Duration = Duration::from_millis(1_000);
const ROUNDS: usize = 7;

/// Measures and prints.
pub(crate) fn run() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let flood = |sources: u32| {
        let flood = Flood::of(Frame::udp([10, 9, 1, 0], 9)).on_cpu(0);
        if sources > 1 { flood.sources(sources).in_random_order() } else { flood }
    };
    println!("through veth on one CPU, 60-byte frames, millions per second; medians of {ROUNDS} × {TIME:?}");
    println!("  {:<24} {:>8} {:>8} {:>7}", "sources, all over limit", "XDP drop", "ours", "ratio");
    for sources in [1, 1_000] {
        let flood = flood(sources);
        let (mut floor, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let sink = Sink::dropping(&sandbox, VICTIM_LINK);
            floor.push(rate(&flood, &sandbox));
            drop(sink);
            ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/h --burst 1"));
            ours.push(rate(&flood, &sandbox));
            ratelimit.ok("detach --all");
        }
        let (floor, ours) = (super::median(floor), super::median(ours));
        println!("  {sources:<24} {floor:>8.2} {ours:>8.2} {:>7.2}", ours / floor);
    }
}

fn rate(flood: &Flood, sandbox: &Sandbox) -> f64 {
    let begin = Instant::now();
    let sent = flood.send_for(sandbox, TIME);
    sent as f64 / begin.elapsed().as_secs_f64() / 1e6
}
