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
    let [_, median, _] = quartiles(values);
    median
}

/// Returns the lower quartile, the median and the upper quartile, between the values next to them.
pub(crate) fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarters| {
        let (place, rest) = (quarters * (values.len() - 1) / 4, quarters * (values.len() - 1) % 4);
        let above = values[place.saturating_add(1).min(values.len() - 1)];
        values[place] + (above - values[place]) * rest as f64 / 4.0
    })
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
    use super::{Noise, quartiles, quietest};

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
    fn quartiles_lie_between_the_values_next_to_them() {
        for (values, expected) in [
            (&[7.0][..], [7.0; 3]),
            (&[4.0, 2.0], [2.5, 3.0, 3.5]),
            (&[5.0, 1.0, 3.0, 2.0, 4.0], [2.0, 3.0, 4.0]),
            (&[40.0, 10.0, 30.0, 20.0], [17.5, 25.0, 32.5]),
        ] {
            assert_eq!(quartiles(values).map(f64::to_bits), expected.map(f64::to_bits), "{values:?}");
        }
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
