//! Pseudo-random numbers from a seed: SplitMix64.

/// The state of the sequence.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a sequence. The same seed gives the same numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns any number.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns true with this probability in percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the values.
    pub fn among<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }
}
