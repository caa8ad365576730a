//! A sliding log: the times of requests. No window of the given length ever admits more than the limit.
//!
//! Memory is bounded: a log has at most one entry for each 1,024th of the period, or one for each request if the limit
//! is smaller. Requests of the same part of the period share an entry, which has the time of the last one.

use std::collections::VecDeque;

use super::look::Look;

/// The most entries of a log.
const MOST: u64 = 1_024;

/// A limit by a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    limit: u64,
    /// Nanoseconds of the window.
    length: u64,
    /// Nanoseconds of a part whose requests share an entry. 1 keeps each request.
    part: u64,
}

/// The log of a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    /// Time and count, from the oldest on.
    entries: VecDeque<(u64, u64)>,
    sum: u64,
}

impl Times {
    fn forget(&mut self, now: u64, length: u64) {
        while let Some((time, count)) = self.entries.front().copied() {
            if now.saturating_sub(time) < length {
                break;
            }
            self.sum -= count;
            self.entries.pop_front();
        }
    }
}

impl Log {
    pub(crate) fn new(limit: u64, length: u64) -> Self {
        let part = if limit <= MOST { 1 } else { (length / MOST).max(1) };
        Self { limit, length, part }
    }

    /// Returns the most bytes of the log of a client.
    pub(crate) fn bytes(&self) -> usize {
        // The queue doubles its room, and one part may be covered at both ends of a window.
        size_of::<Times>() + (self.limit.min(MOST) + 1).next_power_of_two() as usize * size_of::<(u64, u64)>()
    }

    pub(crate) fn ask(&self, times: &mut Times, now: u64, cost: u32) -> Look {
        times.forget(now, self.length);
        let cost = u64::from(cost);
        if times.sum + cost <= self.limit {
            return Look::Admit { after: 0 };
        }
        let mut above = times.sum - self.limit.saturating_sub(cost);
        for (time, count) in &times.entries {
            if *count >= above {
                return Look::Refuse { wait: self.length - now.saturating_sub(*time) };
            }
            above -= count;
        }
        Look::Refuse { wait: self.length }
    }

    pub(crate) fn charge(&self, times: &mut Times, now: u64, cost: u32) {
        times.forget(now, self.length);
        times.sum += u64::from(cost);
        match times.entries.back_mut() {
            // Entries stay in their order if the clock goes back.
            Some((time, count)) if *time / self.part >= now / self.part => {
                (*time, *count) = ((*time).max(now), *count + u64::from(cost));
            }
            _ => times.entries.push_back((now, u64::from(cost))),
        }
    }

    pub(crate) fn give_back(&self, times: &mut Times, now: u64, cost: u32) {
        let cost = u64::from(cost);
        if let Some((_, count)) = times.entries.back_mut().filter(|(time, count)| *time >= now && *count >= cost) {
            *count -= cost;
            times.sum -= cost;
            if *count == 0 {
                times.entries.pop_back();
            }
        }
    }

    pub(crate) fn left(&self, times: &mut Times, now: u64) -> (u64, u64) {
        times.forget(now, self.length);
        let end = times.entries.back().map_or(0, |(time, _)| self.length - now.saturating_sub(*time));
        (self.limit.saturating_sub(times.sum), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 60_000_000_000;

    #[test]
    fn a_log_has_no_more_entries_than_its_bound_whatever_its_limit_is() {
        for limit in [10, MOST, 100_000] {
            let (log, mut times) = (Log::new(limit, PERIOD), Times::default());
            // Twice the limit, evenly over two periods.
            for number in 0..2 * limit {
                let now = PERIOD + number * PERIOD / limit;
                log.charge(&mut times, now, 1);
                assert!(times.entries.len() as u64 <= limit.min(MOST) + 1);
            }
            assert!(times.sum >= limit, "{}", times.sum);
        }
    }
}
