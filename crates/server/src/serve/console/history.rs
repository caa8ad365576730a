//! What was decided in the last minutes, for plots, within bounds.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit_limiter::Limiter;
use ratelimit_protocol::view::{Counts as Shown, ReasonRow};

/// Time between two samples.
pub(super) const STEP: Duration = Duration::from_secs(5);
/// The samples: ten minutes.
pub(super) const SAMPLES: usize = 120;

/// Requests that were allowed and refused in one step.
pub(super) type Sample = [u32; 2];

/// What was decided in the last minutes.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<Series>);

#[derive(Debug, Default)]
struct Series {
    all: Counts,
    packets: Packets,
    rules: HashMap<String, Counts>,
}

/// The packets of the last minutes, or why the daemon shows none.
#[derive(Debug, Default, Clone)]
pub(super) struct Packets {
    counts: Counts,
    /// When it was.
    at: Option<Instant>,
    /// What the daemon has shown last.
    pub(super) last: Shown,
    /// Packets per second by reason: those that were counted, and those that a rule in shadow would have dropped.
    pub(super) rates: BTreeMap<String, [f64; 2]>,
    pub(super) problem: Option<String>,
}

impl Packets {
    /// Returns the samples, the oldest first.
    pub(super) fn samples(&self) -> Vec<Sample> {
        self.counts.samples.iter().copied().collect()
    }

    fn take(&mut self, shown: Shown, now: Instant) {
        // The daemon may not have answered for a while.
        let elapsed = self.at.replace(now).map_or(STEP, |at| now.duration_since(at)).max(Duration::from_millis(1));
        let sum = |passes: bool| shown.reasons.iter().filter(|row| row.passes == passes).map(|row| row.packets).sum();
        // The first reading has no earlier one.
        let is_first = self.counts.last.is_none();
        self.counts.take_after(elapsed, [sum(true), sum(false)]);
        let before = |row: &ReasonRow| self.last.reasons.iter().find(|last| last.name == row.name);
        let rate = |row: &ReasonRow| {
            let last = before(row).map_or([0, 0], |last| [last.packets, last.would_drop]);
            let mut each = [row.packets, row.would_drop].into_iter().zip(last);
            let mut next =
                || each.next().map_or(0.0, |(now, last)| now.saturating_sub(last) as f64 / elapsed.as_secs_f64());
            (row.name.clone(), [next(), next()])
        };
        self.rates = if is_first { BTreeMap::new() } else { shown.reasons.iter().map(rate).collect() };
        (self.last, self.problem) = (shown, None);
    }
}

#[derive(Debug, Default, Clone)]
struct Counts {
    /// The counts at the last sample. None before the first one.
    last: Option<[u64; 2]>,
    samples: VecDeque<Sample>,
}

impl Counts {
    /// Takes counts of a longer time as if there were as many in each step of it.
    fn take_after(&mut self, elapsed: Duration, counts: [u64; 2]) {
        let steps = elapsed.as_secs_f64() / STEP.as_secs_f64();
        let whole = (steps.round() as usize).clamp(1, SAMPLES);
        let Some(last) = self.last else { return self.take(counts) };
        let mut each = counts.into_iter().zip(last);
        // A float becomes the nearest number that there is.
        let mut part = || each.next().map_or(0, |(now, last)| (now.saturating_sub(last) as f64 / steps).round() as u32);
        let sample = [part(), part()];
        self.samples.extend(std::iter::repeat_n(sample, whole));
        self.samples.drain(..self.samples.len().saturating_sub(SAMPLES));
        self.last = Some(counts);
    }

    fn take(&mut self, counts: [u64; 2]) {
        if let Some(last) = self.last {
            if self.samples.len() == SAMPLES {
                self.samples.pop_front();
            }
            let mut each = counts.into_iter().zip(last);
            let mut since =
                || each.next().map_or(0, |(now, last)| u32::try_from(now.saturating_sub(last)).unwrap_or(u32::MAX));
            self.samples.push_back([since(), since()]);
        }
        self.last = Some(counts);
    }
}

impl History {
    /// Takes a sample. Refusals of a rule in shadow count as refusals of the rule.
    pub(super) fn take(&self, limiter: &Limiter, all: [u64; 2]) {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        series.all.take(all);
        let mut before = std::mem::take(&mut series.rules);
        for (rule, _, _, tally) in limiter.rules() {
            // A new rule begins at 0.
            let begun = || Counts { last: Some([0; 2]), ..Counts::default() };
            let mut counts = before.remove(rule.name()).unwrap_or_else(begun);
            let [admitted, refused, in_shadow] = tally.counts();
            counts.take([admitted, refused + in_shadow]);
            series.rules.insert(rule.name().to_owned(), counts);
        }
    }

    /// Takes what the daemon shows, or why it shows nothing.
    pub(super) fn take_packets(&self, shown: Result<Shown, String>, now: Instant) {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shown {
            Ok(shown) => series.packets.take(shown, now),
            // Other readers may keep the daemon busy. What it has shown before stays.
            Err(problem) => series.packets.problem = Some(problem),
        }
    }

    /// Returns the packets of the last minutes.
    pub(super) fn packets(&self) -> Packets {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).packets.clone()
    }

    /// Returns the samples of all requests, the oldest first.
    pub(super) fn all(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.samples.iter().copied().collect()
    }

    /// Returns the samples of a rule, the oldest first.
    pub(super) fn of_rule(&self, name: &str) -> Vec<Sample> {
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        series.rules.get(name).map(|counts| counts.samples.iter().copied().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_limiter::{Algorithm, Limit, Rate, Rule};

    #[test]
    fn samples_are_differences_of_the_last_minutes_of_the_rules_in_force() {
        let limiter = |names: &[&str]| {
            let limit = Limit::new(Rate { amount: 1, period: 1_000_000_000 }, None, Algorithm::TokenBucket).unwrap();
            Limiter::new(names.iter().map(|name| Rule::new(*name, [limit.clone()]).unwrap()), [1, 2])
        };
        let (history, both) = (History::default(), limiter(&["a", "b"]));
        history.take(&both, [5, 5]);
        assert_eq!((history.all(), history.of_rule("a")), (Vec::new(), vec![[0, 0]]));
        both.rules().next().unwrap().3.admit();
        history.take(&both, [7, 5]);
        history.take(&both, [7, 9]);
        assert_eq!((history.all(), history.of_rule("a")), (vec![[2, 0], [0, 4]], vec![[0, 0], [1, 0], [0, 0]]));
        history.take(&limiter(&["b"]), [7, 9]);
        assert_eq!((history.of_rule("a").len(), history.of_rule("b").len()), (0, 4));
        (0..2 * SAMPLES).for_each(|_| history.take(&both, [7, 9]));
        assert_eq!(history.all().len(), SAMPLES);
    }

    #[test]
    fn packets_of_a_longer_time_are_spread_over_it_and_a_silent_daemon_erases_nothing() {
        let (history, begin) = (History::default(), Instant::now());
        let shown = |packets| {
            let row = |name: &str, passes| {
                let name = name.to_owned();
                ReasonRow { name, passes, packets, bytes: 0, would_drop: 0 }
            };
            Ok(Shown { interfaces: Vec::new(), reasons: vec![row("passed", true), row("over", false)] })
        };
        history.take_packets(shown(100), begin);
        history.take_packets(shown(150), begin + STEP);
        assert_eq!((history.packets().samples(), history.packets().rates["over"]), (vec![[50, 50]], [10.0, 0.0]));
        history.take_packets(Err("busy".to_owned()), begin + 2 * STEP);
        assert_eq!((history.packets().samples(), history.packets().problem.as_deref()), (vec![[50, 50]], Some("busy")));
        history.take_packets(shown(450), begin + 4 * STEP);
        assert_eq!(history.packets().samples(), [[50, 50], [100, 100], [100, 100], [100, 100]]);
        assert_eq!((history.packets().rates["over"], history.packets().problem), ([20.0, 0.0], None));
        history.take_packets(shown(450), begin + 9 * SAMPLES as u32 * STEP);
        assert_eq!(history.packets().samples(), [[0, 0]; SAMPLES]);
    }
}
