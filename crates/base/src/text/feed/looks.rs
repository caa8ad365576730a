//! What a text looks like that is no list of addresses, from all of its lines.

use std::collections::HashSet;

use super::{content::FeedError, entry::Entry, near::is_host, sink::Sink};

/// A text with fewer lines can look like anything.
const FEW: usize = 20;

/// The first lines, which tell of the host itself in a hosts file.
const FIRST: usize = 10;

/// The fewest lines that are a list of names.
const NAMES: usize = 3;

/// Counts of lines.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Addresses with a name behind them.
    named: usize,
    /// Those whose address belongs to no other host.
    of_hosts: usize,
    /// Whether an address has the name that each host has for itself.
    has_own_name: bool,
    /// Names without an address.
    names: usize,
}

impl Looks {
    /// Counts a line that can be used, behind so many others.
    pub(super) fn entry(&mut self, entry: &Entry, before: usize) {
        self.named += usize::from(entry.is_named);
        self.of_hosts += usize::from(entry.is_of_hosts);
        self.has_own_name |= entry.is_own_name && before < FIRST;
    }

    /// Counts a line without an address.
    pub(super) fn without(&mut self, line: &str) {
        let name = line.trim_start_matches(['|', '*', '.']).trim_end_matches(['^', '$']);
        self.names += usize::from(is_host(name));
    }

    /// Returns whether most of so many lines that cannot be used are names.
    pub(super) fn names(&self, bad: usize) -> bool {
        self.names >= NAMES && 2 * self.names > bad
    }

    /// Refuses what is probably no list of addresses.
    pub(super) fn check(&self, sink: &Sink) -> Result<(), FeedError> {
        let feed = &sink.feed;
        if feed.usable == 0 && self.names(feed.bad.len()) {
            return Err(FeedError::Names(self.names));
        }
        let is_mostly = |part: usize| 2 * part > feed.usable;
        let is_certain = self.has_own_name || is_mostly(self.of_hosts);
        if !is_certain && (feed.usable < FEW || !is_mostly(self.named)) {
            return Ok(());
        }
        let entries = feed.prefixes.iter().map(|(prefix, _)| prefix).collect::<HashSet<_>>().len();
        if is_certain || 10 * entries <= feed.usable {
            return Err(FeedError::Hosts { lines: feed.usable, entries });
        }
        Ok(())
    }
}
