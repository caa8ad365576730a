//! The less loaded of two random servers.
//!
//! Reports are old when they are used. If every caller took the server with the lowest report, all would take the same one
//! until its next report. Two random choices avoid that, and are nearly as even as the lowest of all.

use std::time::Duration;

/// The time after which half of a report is forgotten. A server that was loaded once is asked again.
const HALF: Duration = Duration::from_secs(1);

/// The load of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Load {
    /// Calls of this caller.
    own: u64,
    /// Calls of others, by the last report.
    others: u64,
    reported: Duration,
}

impl Load {
    /// A call of this caller begins.
    pub(super) fn begin(&mut self) {
        self.own += 1;
    }

    /// A call of this caller ends. The report counts it, and all other calls at the server.
    pub(super) fn end(&mut self, report: Option<u64>, now: Duration) {
        if let Some(report) = report {
            (self.others, self.reported) = (report.saturating_sub(self.own), now);
        }
        self.own = self.own.saturating_sub(1);
    }

    /// Returns the number of calls at the server, as far as this caller knows.
    pub(super) fn now(&self, now: Duration) -> u64 {
        let halves = now.saturating_sub(self.reported).as_nanos() / HALF.as_nanos();
        let others = u32::try_from(halves).ok().and_then(|halves| self.others.checked_shr(halves));
        self.own.saturating_add(others.unwrap_or(0))
    }
}

/// Returns one of the servers: the less loaded of two that the random numbers choose. Each server has a number, a weight
/// and a load. The chance of a server is its part of all weights, and a double weight carries a double load.
pub(super) fn choose(servers: &[(usize, u16, u64)], random: [u64; 2]) -> Option<usize> {
    let [first, second] = random;
    let one = draw(servers, None, first)?;
    let Some(other) = draw(servers, Some(one.0), second) else { return Some(one.0) };
    let is_less = u128::from(other.2) * u128::from(one.1) < u128::from(one.2) * u128::from(other.1);
    Some(if is_less { other.0 } else { one.0 })
}

fn draw(servers: &[(usize, u16, u64)], without: Option<usize>, random: u64) -> Option<&(usize, u16, u64)> {
    let others = || servers.iter().filter(|(number, ..)| Some(*number) != without);
    let all: u64 = others().map(|(_, weight, _)| u64::from(*weight)).sum();
    let mut place = u64::try_from((u128::from(random) * u128::from(all)) >> 64).ok()?;
    others().find(|(_, weight, _)| match place.checked_sub(u64::from(*weight)) {
        Some(rest) => {
            place = rest;
            false
        }
        None => true,
    })
}
