//! What the program has learned about the rate of unknown sources.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::cells::learned_rate::{self, DAYS};

use crate::bpf::atomic::Word;

/// See [`ratelimit_common::maps::names::LEARNED_RATE`].
#[btf_map]
pub static LEARNED_RATE: Array<LearnedRate, 1> = Array::new();

/// A [`learned_rate::LearnedRate`], which the CPUs share.
#[repr(C)]
#[expect(missing_docs, reason = "they are those of `learned_rate::LearnedRate`")]
pub struct LearnedRate {
    pub per_minute: Word,
    pub begun: Word,
    pub passed: Word,
    pub refused: Word,
    pub calm: Word,
    pub settling: Word,
    pub restless: Word,
    pub restless_of_day: Word,
    pub repeats: Word,
    pub most: [Word; DAYS],
}
const _: () = assert!(size_of::<LearnedRate>() == size_of::<learned_rate::LearnedRate>());

impl LearnedRate {
    /// Returns the packets per minute in force.
    #[inline(always)]
    #[must_use]
    pub fn in_force(&self) -> u64 {
        learned_rate::in_force(self.per_minute.load(), self.settling.load())
    }
}

/// Returns what the program has learned.
#[inline(always)]
#[must_use]
pub fn get() -> Option<&'static LearnedRate> {
    LEARNED_RATE.get(0)
}
