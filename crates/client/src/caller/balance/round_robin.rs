//! Smooth weighted round robin, as nginx has it.

/// What servers have earned.
#[derive(Debug, Clone)]
pub(super) struct RoundRobin {
    weights: Vec<i64>,
    earned: Vec<i64>,
}

impl RoundRobin {
    pub(super) fn new(weights: impl IntoIterator<Item = u16>) -> Self {
        let weights: Vec<_> = weights.into_iter().map(i64::from).collect();
        Self { earned: vec![0; weights.len()], weights }
    }

    /// Returns the next of these servers.
    ///
    /// Each of them earns its weight. The one that has earned the most is next, and pays what all have earned now.
    pub(super) fn next(&mut self, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut next, mut most, mut all) = (None, i64::MIN, 0);
        for (number, (earned, weight)) in self.earned.iter_mut().zip(&self.weights).enumerate() {
            if !is_open(number) {
                continue;
            }
            *earned += weight;
            all += weight;
            if *earned > most {
                (next, most) = (Some(number), *earned);
            }
        }
        *self.earned.get_mut(next?)? -= all;
        next
    }
}
