//! Windows and the sliding log. An amount above the limit passes if nothing else counts, and then counts as the whole
//! limit.

use super::definition::Definition;

/// Admitted packets: time and amount.
struct Admitted(Vec<(u64, u128)>);

impl Admitted {
    fn sum(&self, is_counted: impl Fn(u64) -> bool) -> u128 {
        self.0.iter().filter(|(time, _)| is_counted(*time)).map(|(_, amount)| amount).sum()
    }
}

/// The amount in each window of the clock.
pub struct Fixed {
    most: u128,
    length: u64,
    admitted: Admitted,
}

impl Fixed {
    /// Returns a model that admits `most` in `length` nanoseconds.
    #[must_use]
    pub fn new(most: u64, length: u64) -> Self {
        Self { most: u128::from(most), length, admitted: Admitted(Vec::new()) }
    }
}

impl Definition for Fixed {
    fn fits(&self, now: u64, amount: u64) -> bool {
        let counted = self.admitted.sum(|time| time / self.length == now / self.length);
        counted == 0 || counted + u128::from(amount) <= self.most
    }

    fn take(&mut self, now: u64, amount: u64) {
        self.admitted.0.push((now, u128::from(amount)));
    }
}

/// The amount in the current window, plus the part of the previous one that the last window length still covers.
pub struct Sliding {
    most: u128,
    length: u64,
    admitted: Admitted,
}

impl Sliding {
    /// Returns a model that admits `most` in `length` nanoseconds.
    #[must_use]
    pub fn new(most: u64, length: u64) -> Self {
        Self { most: u128::from(most), length, admitted: Admitted(Vec::new()) }
    }
}

impl Definition for Sliding {
    fn fits(&self, now: u64, amount: u64) -> bool {
        let window = now / self.length;
        let current = self.admitted.sum(|time| time / self.length == window);
        let previous = self.admitted.sum(|time| time / self.length + 1 == window);
        let covered = u128::from(self.length - now % self.length);
        let length = u128::from(self.length);
        let is_empty = current == 0 && previous == 0;
        is_empty || previous * covered + (current + u128::from(amount)) * length <= self.most * length
    }

    fn take(&mut self, now: u64, amount: u64) {
        self.admitted.0.push((now, self.most.min(u128::from(amount))));
    }
}

/// Packets in any interval of this length, whatever their amount.
pub struct Log {
    most: u128,
    length: u64,
    admitted: Admitted,
}

impl Log {
    /// Returns a model that admits `most` in `length` nanoseconds.
    #[must_use]
    pub fn new(most: u64, length: u64) -> Self {
        Self { most: u128::from(most), length, admitted: Admitted(Vec::new()) }
    }
}

impl Definition for Log {
    fn fits(&self, now: u64, _: u64) -> bool {
        self.admitted.sum(|time| now - time < self.length) < self.most
    }

    fn take(&mut self, now: u64, _: u64) {
        self.admitted.0.push((now, 1));
    }
}
