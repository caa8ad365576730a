//! What happens to a fleet: traffic, hosts that come and go, and an engine that is lost.

use std::ops::Range;

use ratelimit_common::fleet::{
    lease,
    share::{Limit, Terms},
};

/// What the hosts are offered, in parts of the limit's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Traffic {
    /// Each host is offered so much.
    Each(f64),
    /// All hosts together are offered so much, in equal parts.
    All(f64),
    /// The first host alone is offered so much.
    Alone(f64),
    /// Each host is offered so much, the second half of the hosts only in these seconds.
    Visit(f64, [f64; 2]),
}

/// A fleet, and what happens to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Number of hosts.
    pub hosts: usize,
    /// The limit of the source.
    pub limit: Limit,
    /// Seconds that are simulated.
    pub seconds: usize,
    /// What the hosts are offered.
    pub traffic: Traffic,
    /// Seconds in which the engine answers no report. It returns without its memory.
    pub loss: Range<f64>,
    /// Weight of every second host. The others have 1.
    pub weight: f64,
}

impl Scenario {
    /// Returns a fleet of so many hosts. Its limit gives each host ten packets per second at least.
    #[must_use]
    pub fn new(hosts: usize, traffic: Traffic) -> Self {
        let rate = (10.0 * hosts as f64).max(1_000.0);
        let limit = Limit { rate, burst: rate / 10.0 };
        Self { hosts, limit, seconds: 60, traffic, loss: 0.0..0.0, weight: 1.0 }
    }

    /// Returns the terms. The least share is a tenth of what each of many hosts gets, as far as a lease can express it.
    pub(super) fn terms(&self) -> Terms {
        let (terms, least) = (Terms::default(), lease::WHOLE as f64 / lease::MOST as f64);
        Terms { least: terms.least.min(0.1 / self.hosts as f64).max(least), ..terms }
    }

    pub(super) fn weight(&self, host: usize) -> f64 {
        if host % 2 == 1 { self.weight } else { 1.0 }
    }

    /// Returns the packets per second that a host is offered.
    pub(super) fn offered(&self, host: usize, now: f64) -> f64 {
        let part = match self.traffic {
            Traffic::Each(rate) => rate,
            Traffic::All(rate) => rate / self.hosts as f64,
            Traffic::Alone(rate) if host == 0 => rate,
            Traffic::Alone(_) => 0.0,
            Traffic::Visit(rate, [begin, end]) if host < self.hosts / 2 || now >= begin && now < end => rate,
            Traffic::Visit(..) => 0.0,
        };
        part * self.limit.rate
    }

    pub(super) fn has_engine(&self, now: f64) -> bool {
        !self.loss.contains(&now)
    }

    /// Returns whether the engine loses its memory in this step.
    pub(super) fn forgets(&self, now: f64, step: f64) -> bool {
        self.loss.contains(&now) && now - self.loss.start < step
    }
}
