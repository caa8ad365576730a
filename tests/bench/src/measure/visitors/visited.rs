//! The visitors beside one flood.

use std::time::Duration;

use super::{layout::Sender, protection::Protection};
use crate::flood::{Protocol, Rate};

/// Share of the visitors that must get the page beside a flood that is held.
const SERVED: f64 = 0.95;
/// Share of that flood that must arrive.
const ARRIVED: f64 = 0.9;

/// The visitors beside one flood.
#[derive(Debug, Clone)]
pub(crate) struct Visited {
    pub(crate) protocol: Protocol,
    pub(crate) rate: Rate,
    pub(crate) protection: Protection,
    pub(crate) sender: Sender,
    /// Time of each visitor until it had the page. None if it had none.
    pub(crate) times: Vec<Option<Duration>>,
    /// Time after which a visitor leaves.
    pub(crate) patience: Duration,
    /// Packets of the flood per second: those that were sent, and those that arrived.
    pub(crate) sent: f64,
    pub(crate) received: f64,
    /// Frames of the visitors that did not fit into a ring.
    pub(crate) lost: u64,
}

impl Visited {
    /// Returns the share of visitors that got the page.
    pub(crate) fn share(&self) -> f64 {
        self.times.iter().flatten().count() as f64 / self.times.len() as f64
    }

    /// Returns whether almost all visitors got the page, and almost all of the flood arrived.
    pub(crate) fn is_held(&self) -> bool {
        let asked = if let Rate::PerSecond(asked) = self.rate { f64::from(asked) } else { 0.0 };
        self.share() >= SERVED && self.received >= ARRIVED * asked
    }

    /// Returns a quantile of the time of all visitors in milliseconds. One without the page took until it left.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let mut times: Vec<_> = self.times.iter().map(|time| time.unwrap_or(self.patience)).collect();
        times.sort_unstable();
        let last = times.len().saturating_sub(1) as f64;
        times.get((last * part).round() as usize).map_or(0.0, Duration::as_secs_f64) * 1e3
    }
}
