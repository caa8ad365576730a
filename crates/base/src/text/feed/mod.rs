//! Lists of addresses as feeds publish them: one entry per line, or JSON, also packed by gzip.
//!
//! What a line says is taken whole, or the line is named. Nothing is half-read, and nothing that a file excludes is taken.
//! Files, servers, standard input and sets of other packet filters all come through here. What a list does with its
//! entries does not belong here.

mod comments;
mod content;
mod entry;
mod firewall;
mod item;
mod json;
mod lines;
mod looks;
mod near;
mod packed;
mod section;
mod sink;
mod words;

#[cfg(test)]
mod tests;

use std::io::BufRead;

use self::{content::MOST_PREFIXES, sink::Sink};
pub use self::{
    content::{Bad, Feed, FeedError, Purpose},
    firewall::SetEntry,
};

/// Reads a list to its end. A line with a prefix that is too wide for a list cannot be used.
///
/// # Errors
///
/// Fails if the list is too long, is probably no list, or cannot be read.
pub fn read(input: impl BufRead) -> Result<Feed, FeedError> {
    read_within(input, MOST_PREFIXES, Purpose::Refuse)
}

/// Reads a list with about so many prefixes at most. Fails like [`read`].
///
/// # Errors
///
/// Fails like [`read`].
pub fn read_within(input: impl BufRead, most: usize, purpose: Purpose) -> Result<Feed, FeedError> {
    let mut sink = Sink::of(most, purpose);
    packed::read(input, &mut sink)?;
    sink.check(|_| false)?;
    sink.feed()
}
