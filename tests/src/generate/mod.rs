//! Generated frames of all kinds from a seed, some of them broken.

mod draft;
mod kind;
mod link;
mod mutate;
mod network;
pub mod random;
mod transport;

use draft::Draft;
pub use kind::{Kind, Kinds};

/// Maximum frame length, since the kernel would split longer frames into several buffers.
const LONGEST: usize = 3_400;

/// Generator of tags, network and transport headers, which records the position of length fields.
pub struct Generator {
    draft: Draft,
}

impl Generator {
    /// Creates a generator. The same seed gives the same frames.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { draft: Draft::new(seed) }
    }

    /// Generates the next frame and returns its kinds, from before it was broken.
    pub fn make(&mut self) -> (&[u8], Kinds) {
        let draft = &mut self.draft;
        draft.clear();
        link::link(draft);
        draft.frame.truncate(LONGEST);
        if draft.random.percent(45) {
            for _ in 0..draft.random.among(&[1, 1, 2, 3]) {
                mutate::mutate(draft);
            }
        }
        draft.frame.truncate(LONGEST);
        (&draft.frame, draft.kinds)
    }
}
