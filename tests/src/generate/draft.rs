//! A frame that headers are appended to.

use super::{kind::Kinds, random::Random};

/// A frame during its generation, with the positions of its length fields.
pub(super) struct Draft {
    pub(super) random: Random,
    pub(super) frame: Vec<u8>,
    pub(super) lengths: Vec<Length>,
    pub(super) kinds: Kinds,
}

/// Position of a length field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Length {
    Word(usize),
    Byte(usize),
    LowNibble(usize),
    HighNibble(usize),
}

impl Draft {
    /// Returns an empty frame. The same seed gives the same random choices.
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), frame: Vec::new(), lengths: Vec::new(), kinds: Kinds::default() }
    }

    /// Removes all contents. The random choices continue.
    pub(super) fn clear(&mut self) {
        self.frame.clear();
        self.lengths.clear();
        self.kinds = Kinds::default();
    }

    /// Appends one byte.
    pub(super) fn byte(&mut self, byte: u8) {
        self.frame.push(byte);
    }

    /// Appends a word in network byte order.
    pub(super) fn word(&mut self, word: u16) {
        self.frame.extend_from_slice(&word.to_be_bytes());
    }

    /// Appends random bytes.
    pub(super) fn bytes(&mut self, count: usize) {
        for _ in 0..count {
            self.frame.push(self.random.next() as u8);
        }
    }

    /// Appends a payload, mostly a short one.
    pub(super) fn data(&mut self) {
        let count = match self.random.below(100) {
            0..30 => 0,
            30..97 => self.random.below(40),
            _ => self.random.below(1_400),
        };
        // The content is arbitrary but must not look like valid header fields everywhere.
        let filler = self.random.next() as u8;
        self.frame.resize(self.frame.len() + count, filler);
    }

    /// Overwrites the word at `at`.
    pub(super) fn set_word(&mut self, at: usize, word: usize) {
        self.frame[at..at + 2].copy_from_slice(&(word as u16).to_be_bytes());
    }
}
