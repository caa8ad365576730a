//! Takes what the formats find, within bounds, and leaves out what a list excludes elsewhere.

use std::{collections::HashMap, net::IpAddr};

use super::{
    content::{Bad, Feed, FeedError, LineError, MOST_BAD, MOST_PREFIXES, NAMED_CUTS, Widths},
    item::Item,
};
use crate::text::{
    excerpt::excerpt,
    prefix::{Prefix, PrefixError},
};

/// A feed that is being read.
pub(super) struct Sink {
    pub(super) feed: Feed,
    /// What the list says is not meant.
    excluded: Vec<Prefix>,
    most: usize,
    widths: Widths,
}

/// How much a feed had.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    prefixes: usize,
    usable: usize,
    cuts: usize,
}

impl Sink {
    pub(super) fn of(most: usize, widths: Widths) -> Self {
        Self { feed: Feed::default(), excluded: Vec::new(), most: most.min(MOST_PREFIXES), widths }
    }

    /// Fails if there is too much. `are_names` returns whether that is so because the lines have names.
    pub(super) fn check(&self, are_names: impl Fn(usize) -> bool) -> Result<(), FeedError> {
        if self.feed.prefixes.len() > self.most {
            return Err(FeedError::Prefixes(self.most));
        }
        if self.excluded.len() > MOST_PREFIXES {
            return Err(FeedError::Bad);
        }
        match self.feed.bad.len() {
            bad if bad <= MOST_BAD => Ok(()),
            bad if are_names(bad) && self.is_without_prefix() => Err(FeedError::Names(bad)),
            _ => Err(FeedError::Bad),
        }
    }

    pub(super) fn is_without_prefix(&self) -> bool {
        self.feed.prefixes.is_empty()
    }

    /// Takes a line with one prefix, and the address that was given if it has more bits.
    pub(super) fn take_prefix(
        &mut self,
        line: usize,
        prefix: Prefix,
        given: Option<IpAddr>,
        text: impl Fn() -> String,
    ) {
        if self.widths == Widths::OfLists && prefix.is_too_wide() {
            return self.refuse(line, &text(), &LineError::Wide);
        }
        if let Some(address) = given {
            self.cut(line, prefix, address);
        }
        self.feed.prefixes.push((prefix, line));
        self.feed.usable += 1;
    }

    /// Takes all that a line says, or refuses it.
    pub(super) fn take(&mut self, line: usize, text: &str, items: &[Item]) {
        let mark = self.mark();
        let mut is_wide = false;
        for item in items {
            item.each(|prefix| {
                is_wide |= self.widths == Widths::OfLists && prefix.is_too_wide();
                self.feed.prefixes.push((prefix, line));
            });
        }
        if is_wide {
            self.back(mark);
            return self.refuse(line, text, &LineError::Wide);
        }
        for item in items {
            if let Item::Cut(prefix, address) = item {
                self.cut(line, *prefix, *address);
            }
        }
        self.feed.usable += 1;
    }

    fn cut(&mut self, line: usize, prefix: Prefix, address: IpAddr) {
        self.feed.cuts += 1;
        if self.feed.cuts <= NAMED_CUTS {
            self.feed.cut.push(Bad { line, why: format!("{address}/{} is {prefix}", prefix.bits()) });
        }
    }

    /// Names a line with its text.
    pub(super) fn refuse(&mut self, line: usize, text: &str, error: &LineError) {
        if matches!(error, LineError::Excluded(_) | LineError::Sign('!' | '-' | '~' | '^')) {
            let is_part = |character: char| character.is_ascii_hexdigit() || matches!(character, '.' | ':' | '/');
            let words = text.split(|character| !is_part(character)).filter(|word| word.contains(['.', ':']));
            self.excluded.extend(words.filter_map(|word| match word.trim_matches(['.', '/']).parse() {
                Ok(prefix) | Err(PrefixError::HostBits(prefix, _)) => Some(prefix),
                Err(_) => None,
            }));
        }
        self.bad(line, format!("{}: {error}", excerpt(text)));
    }

    /// Names a line.
    pub(super) fn bad(&mut self, line: usize, why: String) {
        self.feed.bad.push(Bad { line, why });
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { prefixes: self.feed.prefixes.len(), usable: self.feed.usable, cuts: self.feed.cuts }
    }

    /// Leaves out what was taken since the mark.
    pub(super) fn back(&mut self, mark: Mark) {
        self.feed.prefixes.truncate(mark.prefixes);
        self.feed.usable = mark.usable;
        self.feed.cuts = mark.cuts;
        self.feed.cut.truncate(mark.cuts);
    }

    /// Excludes what was taken since the mark. Returns whether there was anything.
    pub(super) fn exclude_since(&mut self, mark: Mark) -> bool {
        let since = self.feed.prefixes.get(mark.prefixes..).unwrap_or_default();
        self.excluded.extend(since.iter().map(|(prefix, _)| *prefix));
        let had = !since.is_empty();
        self.back(mark);
        had
    }

    /// Returns the feed without lines that contain what the list excludes.
    pub(super) fn feed(mut self) -> Feed {
        self.excluded.sort_unstable();
        let inside = |prefix: &Prefix| {
            let next = self.excluded.partition_point(|other| other < prefix);
            self.excluded.get(next).filter(|other| prefix.contains(other))
        };
        let Feed { prefixes, usable, bad, .. } = &mut self.feed;
        let found = prefixes.iter().filter_map(|(prefix, line)| Some((*line, *inside(prefix)?)));
        let lines: HashMap<usize, Prefix> = if self.excluded.is_empty() { HashMap::new() } else { found.collect() };
        if !lines.is_empty() {
            prefixes.retain(|(_, line)| !lines.contains_key(line));
            *usable = usable.saturating_sub(lines.len()).min(prefixes.len());
            bad.extend(lines.into_iter().map(|(line, prefix)| Bad {
                line,
                why: format!("contains {prefix}, which the list excludes elsewhere, so it is left out"),
            }));
        }
        bad.sort_by_key(|bad| bad.line);
        self.feed
    }
}
