//! Real frames through a veth pair, sent and received on one CPU.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ratelimit_tests::{Flood, Frame, Sandbox, Sources};

use crate::{
    configurations::{self, COMMON_SOURCES, PORT},
    measure::{
        Effort,
        limiters::{Limiter, Terms},
        noise::median,
    },
    results::Live,
    state::State,
};

/// Time during which frames flow before they are counted.
const WARM_UP: Duration = Duration::from_millis(30);
/// New sources that suffice for one sample. Other limiters have space for a million, and a full table is another case.
const MOST_NEW: u64 = 800_000;

/// One limiter with one kind of traffic.
struct Case {
    limiter: Limiter,
    state: State,
    sources: Sources,
    speeds: Vec<f64>,
    dropped: Vec<f64>,
}

/// Measures, and prints which limiters are missing.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Live>> {
    let sandbox = Sandbox::new();
    let mut limiters = vec![Limiter::Floor];
    limiters
        .extend(configurations::CONFIGURATIONS.iter().filter(|configuration| configuration.on_wire).map(Limiter::Ours));
    limiters.extend([Limiter::Nftables, Limiter::Iptables].into_iter().filter(|other| other.is_here(&sandbox)));
    let mut cases = Vec::new();
    for sources in COMMON_SOURCES {
        for state in [State::Passing, State::Over] {
            for limiter in &limiters {
                // The floor has no limit, and a new source is never over its own.
                if state == State::Passing || !matches!((limiter, sources), (Limiter::Floor, _) | (_, Sources::Endless))
                {
                    cases.push(Case { limiter: *limiter, state, sources, speeds: Vec::new(), dropped: Vec::new() });
                }
            }
        }
    }
    let mut used = 0;
    for round in 1..=effort.rounds {
        effort.print_progress("real frames", round);
        for case in &mut cases {
            case.sample(&sandbox, Duration::from_secs_f64(effort.seconds), &mut used)?;
        }
    }
    Ok(cases.iter().map(|case| case.result(effort)).collect())
}

impl Case {
    fn sample(&mut self, sandbox: &Sandbox, time: Duration, used: &mut u32) -> Result<()> {
        let mut standing = self.limiter.set_up(sandbox, Terms::Speed(self.state), self.sources)?;
        let flood = Flood::of(Frame::udp([10, 9, 1, 0], PORT)).on_cpu(0);
        let flood = match self.sources {
            Sources::Count(1) => flood,
            Sources::Count(count) => flood.sources(count),
            Sources::Endless => flood.endless(*used),
        };
        if let Sources::Count(count) = self.sources {
            // The state after some seconds: sources have their buckets, and those over the limit have a refusal.
            let admissions = standing.set_admissions(u64::MAX);
            flood.send(sandbox, 3 * u64::from(count));
            standing.set_admissions(admissions);
        }
        let (within_before, over_before) = standing.verdicts()?;
        let flood = if self.sources > Sources::Count(1) { flood.in_random_order() } else { flood };
        let running = flood.start(sandbox);
        thread::sleep(WARM_UP);
        let (begin, sent_before) = (Instant::now(), running.sent());
        while begin.elapsed() < time && (self.sources != Sources::Endless || running.sent() < MOST_NEW) {
            thread::sleep(Duration::from_millis(5));
        }
        let (elapsed, sent) = (begin.elapsed(), running.sent());
        let all = running.stop();
        let (within, over) = standing.verdicts()?;
        let (within, over) = (within - within_before, over - over_before);
        let (arrived, name) = (within + over, self.limiter.name());
        ensure!(arrived.abs_diff(all) <= all / 1_000, "{name}: of {all} packets, {arrived} arrived");
        *used = used.wrapping_add(all as u32);
        self.speeds.push((sent - sent_before) as f64 / elapsed.as_secs_f64());
        self.dropped.push(over as f64 / arrived as f64);
        Ok(())
    }

    fn result(&self, effort: &Effort) -> Live {
        Live {
            limiter: self.limiter.name(),
            state: self.state,
            sources: self.sources,
            packets_per_second: effort.figure(&self.speeds),
            dropped: median(&self.dropped),
        }
    }
}
