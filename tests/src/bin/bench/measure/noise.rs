//! How far the rounds of a run differ, and which of several runs is the quietest.

use std::cell::RefCell;

/// Whole runs of `--record`, of which it keeps the quietest.
pub(crate) const RUNS: usize = 3;

/// The spreads of all cases of a run.
#[derive(Default)]
pub(crate) struct Noise {
    spreads: RefCell<Vec<f64>>,
}

impl Noise {
    /// Returns the median of a case's rounds, and keeps their spread.
    pub(crate) fn figure(&self, rounds: &[f64]) -> f64 {
        self.spreads.borrow_mut().push(spread(rounds));
        median(rounds)
    }

    /// Returns the noise of the run: the median of its spreads.
    pub(crate) fn median(&self) -> f64 {
        median(&self.spreads.borrow())
    }
}

/// Returns the median, which is the mean of two middle values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], values[middle]) } else { values[middle] }
}

/// Returns the runs' place with the least noise. None if there are no runs.
pub(crate) fn quietest(noises: impl Iterator<Item = f64>) -> Option<usize> {
    noises.enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(place, _)| place)
}

/// Returns the difference of the largest and the smallest value, relative to the median.
fn spread(values: &[f64]) -> f64 {
    let (least, most) =
        values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
    (most - least) / median(values)
}

#[cfg(test)]
mod tests {
    use super::{Noise, quietest};

    #[test]
    fn noise_is_the_median_of_the_spreads_between_rounds() {
        let noise = Noise::default();
        for (rounds, figure) in [([90.0, 100.0, 110.0], 100.0), ([2.0, 1.0, 1.0], 1.0), ([50.0, 50.0, 50.0], 50.0)] {
            assert_eq!(noise.figure(&rounds).to_bits(), f64::to_bits(figure), "{rounds:?}");
        }
        // The spreads are 20 %, 100 % and none.
        assert!((noise.median() - 0.2).abs() < 1e-9, "{}", noise.median());
    }

    #[test]
    fn a_slower_machine_is_not_noisier() {
        let [fast, slow] = [1.0, 7.0].map(|factor| {
            let noise = Noise::default();
            noise.figure(&[10.0, 11.0, 12.0].map(|value| value * factor));
            noise.median()
        });
        assert!((fast - slow).abs() < 1e-9, "{fast} and {slow}");
    }

    #[test]
    fn the_quietest_run_has_the_least_noise() {
        assert_eq!(quietest([0.08, 0.03, 0.05].into_iter()), Some(1));
        assert_eq!(quietest([0.08].into_iter()), Some(0));
        assert_eq!(quietest(std::iter::empty()), None);
    }
}
