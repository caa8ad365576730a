//! What reads hostile input.

use anyhow::Result;
use ratelimit_tests::generate::random::Random;

/// What reads hostile input.
pub(super) trait Target {
    /// Makes an input and has it read. Returns what became of it, or what is wrong with that.
    fn next(&mut self, random: &mut Random) -> Result<&'static str>;
}

/// Returns the lines of a text.
pub(super) fn lines(text: &str) -> Vec<Vec<u8>> {
    text.lines().map(|line| line.as_bytes().to_vec()).collect()
}
