//! Summary of a comparison of many frames.

use std::fmt;

use crate::{
    disagreement::Disagreement,
    expected::Expected,
    generate::{Kind, Kinds},
    reference::Opinion,
};

const OPINIONS: usize = Opinion::NAMES.len();
const DISAGREEMENTS: usize = Disagreement::ALL.len();
const KINDS: usize = Kind::ALL.len();

/// Frames by their kinds and results.
#[derive(Debug, Clone)]
pub struct Tally {
    /// All frames.
    pub frames: u64,
    /// Frames too short for the kernel, which only the host build parsed.
    pub too_short: u64,
    /// Frames on which the product agreed with etherparse.
    pub agreed: u64,
    /// Frames by the expected opinion.
    opinions: [u64; OPINIONS],
    /// Frames that differ by this disagreement alone, and together with others.
    disagreements: [[u64; 2]; DISAGREEMENTS],
    kinds: [u64; KINDS],
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            frames: 0,
            too_short: 0,
            agreed: 0,
            opinions: [0; OPINIONS],
            disagreements: [[0; 2]; DISAGREEMENTS],
            kinds: [0; KINDS],
        }
    }
}

impl Tally {
    /// Counts one frame with etherparse's opinion `theirs`.
    pub fn count(&mut self, theirs: Opinion, expected: &Expected, kinds: Kinds) {
        self.frames += 1;
        self.opinions[expected.opinion.kind()] += 1;
        for kind in Kind::ALL.iter().filter(|kind| kinds.has(**kind)) {
            self.kinds[*kind as usize] += 1;
        }
        if theirs == expected.opinion {
            self.agreed += 1;
            return;
        }
        let has_others = usize::from(expected.because().count() > 1);
        for disagreement in expected.because() {
            self.disagreements[disagreement as usize][has_others] += 1;
        }
    }

    /// Returns frames by the expected opinion.
    pub fn opinions(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Opinion::NAMES.into_iter().zip(self.opinions)
    }

    /// Returns frames that differ by this disagreement alone.
    pub fn disagreements(&self) -> impl Iterator<Item = (Disagreement, u64)> + '_ {
        Disagreement::ALL.iter().map(|disagreement| (*disagreement, self.disagreements[*disagreement as usize][0]))
    }

    /// Returns frames by their kinds.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        Kind::ALL.iter().copied().zip(self.kinds)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, too_short, agreed, .. } = self;
        writeln!(f, "{frames} frames, {too_short} of them too short for the kernel")?;
        writeln!(f, "\nmade of")?;
        for (kind, count) in self.kinds() {
            writeln!(f, "{count:>10}  {kind:?}")?;
        }
        writeln!(f, "\nopinions of the product")?;
        for (opinion, count) in self.opinions() {
            writeln!(f, "{count:>10}  {opinion}")?;
        }
        writeln!(f, "\nagreed {agreed}; disagreed {}: for one reason alone, with others", frames - agreed)?;
        for disagreement in Disagreement::ALL {
            let [alone, with_others] = self.disagreements[*disagreement as usize];
            writeln!(f, "{alone:>10} {with_others:>9}  {disagreement:?}: {}", disagreement.reason())?;
        }
        Ok(())
    }
}
