//! Runs a fleet, and counts what its hosts admit in each second.

use std::collections::VecDeque;

use ratelimit_common::fleet::share::{Answer, Limit, Report};

use crate::fleet::{
    engine::Engine,
    host::{Done, GOLDEN_RATIO, Host},
    scenario::Scenario,
};

/// Seconds of one step.
const STEP: f64 = 0.01;
/// Steps in one second.
const STEPS: usize = 100;
/// Seconds before the parts of the hosts are counted.
const SETTLING: usize = 10;
/// Steps for which a message is on its way.
const DELAY: usize = 1;

/// What a fleet did.
#[derive(Debug, Clone)]
pub struct Run {
    limit: Limit,
    /// Of each second.
    seconds: Vec<Done>,
    /// Longest time without an admitted packet, in steps, while packets were offered.
    silence: usize,
    /// Reports that the engine took.
    reports: u64,
    /// Packets that even and odd hosts have admitted, after ten seconds.
    admitted: [f64; 2],
}

/// A message on its way.
enum Message {
    Report(usize, Report),
    Answer(usize, Answer),
}

impl Run {
    /// Runs a scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let (limit, terms) = (scenario.limit, scenario.terms());
        let mut hosts: Vec<_> =
            (0..scenario.hosts).map(|host| Host::new(scenario.weight(host), fraction(host), &terms)).collect();
        let mut engine = Engine::default();
        let mut under_way: VecDeque<Vec<Message>> = (0..DELAY).map(|_| Vec::new()).collect();
        let mut run = Self {
            limit,
            seconds: vec![Done::default(); scenario.seconds],
            silence: 0,
            reports: 0,
            admitted: [0.0; 2],
        };
        let mut silence = 0;
        for step in 0..scenario.seconds * STEPS {
            let now = step as f64 * STEP;
            let is_there = scenario.has_engine(now);
            if scenario.forgets(now, STEP) {
                engine.forget();
            }
            let arrived = under_way.pop_front().unwrap_or_default();
            under_way.push_back(Vec::new());
            for message in arrived {
                match message {
                    // A lost report is not repeated: the local limit has stood meanwhile.
                    Message::Report(..) if !is_there => {}
                    Message::Report(host, report) => {
                        run.reports += 1;
                        let answer = engine.take(&report, &limit, &terms, now);
                        under_way[DELAY - 1].push(Message::Answer(host, answer));
                    }
                    Message::Answer(host, answer) => hosts[host].take(&answer, &limit, &terms, now),
                }
            }
            let mut done = Done::default();
            for (number, host) in hosts.iter_mut().enumerate() {
                let by_host = host.receive(scenario.offered(number, now), &limit, now, STEP);
                done.offered += by_host.offered;
                done.admitted += by_host.admitted;
                if step >= SETTLING * STEPS {
                    run.admitted[number % 2] += by_host.admitted;
                }
                if let Some(report) = host.report(&terms, now) {
                    under_way[DELAY - 1].push(Message::Report(number, report));
                }
            }
            silence = if done.admitted > 0.0 || done.offered == 0.0 { 0 } else { silence + 1 };
            run.silence = run.silence.max(silence);
            let second = &mut run.seconds[step / STEPS];
            second.offered += done.offered;
            second.admitted += done.admitted;
        }
        run
    }

    /// Returns the admitted packets of each second, in parts of the limit's rate.
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        self.seconds.iter().map(|second| second.admitted / self.limit.rate)
    }

    /// Returns the mean of these seconds.
    #[must_use]
    pub fn mean(&self, seconds: std::ops::Range<usize>) -> f64 {
        let count = seconds.len() as f64;
        self.rates().skip(seconds.start).take(seconds.len()).sum::<f64>() / count
    }

    /// Returns the largest distance of one of these seconds from 1.
    #[must_use]
    pub fn deviation(&self, seconds: std::ops::Range<usize>) -> f64 {
        self.rates().skip(seconds.start).take(seconds.len()).map(|rate| (rate - 1.0).abs()).fold(0.0, f64::max)
    }

    /// Returns the part of all packets that were refused.
    #[must_use]
    pub fn refused(&self) -> f64 {
        let sum = |part: fn(&Done) -> f64| self.seconds.iter().map(part).sum::<f64>();
        1.0 - sum(|second| second.admitted) / sum(|second| second.offered).max(1.0)
    }

    /// Returns after how many of these seconds each further one of them stays within `distance` of the limit.
    #[must_use]
    pub fn settled(&self, seconds: std::ops::Range<usize>, distance: f64) -> usize {
        let rates = self.rates().skip(seconds.start).take(seconds.len()).enumerate();
        rates.filter(|(_, rate)| (rate - 1.0).abs() > distance).last().map_or(0, |(second, _)| second + 1)
    }

    /// Returns the longest time without an admitted packet, in seconds.
    #[must_use]
    pub fn silence(&self) -> f64 {
        self.silence as f64 * STEP
    }

    /// Returns how much more odd hosts have admitted than even ones, after the first ten seconds.
    #[must_use]
    pub fn odd_to_even(&self) -> f64 {
        self.admitted[1] / self.admitted[0].max(1.0)
    }

    /// Returns the reports in one second.
    #[must_use]
    pub fn reports(&self) -> f64 {
        self.reports as f64 / self.seconds.len() as f64
    }
}

/// Returns a number from 0 to 1 for a host, spread evenly.
fn fraction(host: usize) -> f64 {
    (host as f64 * GOLDEN_RATIO).fract()
}
