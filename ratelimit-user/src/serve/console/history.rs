//! What was decided in the last minutes, for plots, within bounds.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{
    check::Limiter,
    view::{Counts as Shown, ReasonRow},
};

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

    fn take(&mut self, shown: Shown) {
        let sum = |passes: bool| shown.reasons.iter().filter(|row| row.passes == passes).map(|row| row.packets).sum();
        // The first reading has no earlier one.
        let is_first = self.counts.last.is_none();
        self.counts.take([sum(true), sum(false)]);
        let before = |row: &ReasonRow| self.last.reasons.iter().find(|last| last.name == row.name);
        let rate = |row: &ReasonRow| {
            let last = before(row).map_or([0, 0], |last| [last.packets, last.would_drop]);
            let mut each = [row.packets, row.would_drop].into_iter().zip(last);
            let mut next =
                || each.next().map_or(0.0, |(now, last)| now.saturating_sub(last) as f64 / STEP.as_secs_f64());
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
    pub(super) fn take_packets(&self, shown: Result<Shown, String>) {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shown {
            Ok(shown) => series.packets.take(shown),
            // A later reading would seem to have the packets of the whole time.
            Err(problem) => series.packets = Packets { problem: Some(problem), ..Packets::default() },
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
    use crate::check::{Algorithm, Limit, Rate, Rule};

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
}
