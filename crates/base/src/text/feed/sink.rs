//! Takes what the formats find, within bounds, and leaves out what a list excludes elsewhere.

use std::net::IpAddr;

use super::{
    content::{Bad, Feed, FeedError, LineError, MOST_BAD, MOST_PREFIXES, NAMED_CUTS, Purpose},
    item::Item,
};
use crate::text::{
    excerpt::{excerpt, message},
    prefix::Prefix,
};

/// A feed that is being read.
pub(super) struct Sink {
    pub(super) feed: Feed,
    /// What the list says is not meant.
    excluded: Vec<Prefix>,
    /// The entries with another number of prefixes than one: where they begin, and where they end.
    groups: Vec<(u32, u32)>,
    /// Where the prefixes are that were cut.
    cuts: Vec<u32>,
    most: usize,
    purpose: Purpose,
}

/// How much a feed had.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    prefixes: usize,
    usable: usize,
    cuts: usize,
}

impl Sink {
    pub(super) fn of(most: usize, purpose: Purpose) -> Self {
        let most = most.min(MOST_PREFIXES);
        Self { feed: Feed::default(), excluded: Vec::new(), groups: Vec::new(), cuts: Vec::new(), most, purpose }
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

    /// Returns whether an entry can only be used if its line has nothing else.
    pub(super) fn takes_only_alone(&self) -> bool {
        self.purpose == Purpose::Allow
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
        if self.purpose != Purpose::Delete && prefix.is_too_wide() {
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
        let (mark, purpose) = (self.mark(), self.purpose);
        let mut is_wide = false;
        for item in items {
            if let Item::Cut(prefix, address) = item {
                self.cut(line, *prefix, *address);
            }
            item.each(|prefix| {
                is_wide |= purpose != Purpose::Delete && prefix.is_too_wide();
                self.feed.prefixes.push((prefix, line));
            });
        }
        if is_wide {
            self.back(mark);
            return self.refuse(line, text, &LineError::Wide);
        }
        let (begin, end) = (mark.prefixes, self.feed.prefixes.len());
        if end - begin != 1 {
            self.groups.push((begin as u32, end as u32));
        }
        self.feed.usable += 1;
    }

    fn cut(&mut self, line: usize, prefix: Prefix, address: IpAddr) {
        self.cuts.push(self.feed.prefixes.len() as u32);
        if self.cuts.len() <= NAMED_CUTS {
            self.feed.cut.push(Bad { line, why: format!("{address}/{} is {prefix}", prefix.bits()) });
        }
    }

    /// Names a line with its text.
    pub(super) fn refuse(&mut self, line: usize, text: &str, error: &LineError) {
        self.bad(line, format!("{}: {error}", excerpt(text)));
    }

    /// Names a line whose addresses are not meant, so that no other line is taken that contains them.
    pub(super) fn exclude(&mut self, line: usize, text: &str, error: &LineError, items: &[Item]) {
        items.iter().for_each(|item| item.each(|prefix| self.excluded.push(prefix)));
        self.refuse(line, text, error);
    }

    /// Names a line.
    pub(super) fn bad(&mut self, line: usize, why: String) {
        self.feed.bad.push(Bad { line, why: message(&why) });
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { prefixes: self.feed.prefixes.len(), usable: self.feed.usable, cuts: self.cuts.len() }
    }

    /// Leaves out what was taken since the mark.
    pub(super) fn back(&mut self, mark: Mark) {
        self.feed.prefixes.truncate(mark.prefixes);
        self.feed.usable = mark.usable;
        self.cuts.truncate(mark.cuts);
        self.feed.cut.truncate(mark.cuts);
        while self.groups.last().is_some_and(|(_, end)| *end as usize > mark.prefixes) {
            self.groups.pop();
        }
    }

    /// Excludes what was taken since the mark. Returns whether there was anything.
    pub(super) fn exclude_since(&mut self, mark: Mark) -> bool {
        let since = self.feed.prefixes.get(mark.prefixes..).unwrap_or_default();
        self.excluded.extend(since.iter().map(|(prefix, _)| *prefix));
        let had = !since.is_empty();
        self.back(mark);
        had
    }

    /// Returns the feed without entries that contain what the list excludes, or are inside it.
    ///
    /// # Errors
    ///
    /// Fails if too many entries do.
    pub(super) fn feed(mut self) -> Result<Feed, FeedError> {
        self.leave_out()?;
        self.feed.cuts = self.cuts.len();
        self.feed.bad.sort_by_key(|bad| bad.line);
        Ok(self.feed)
    }

    fn leave_out(&mut self) -> Result<(), FeedError> {
        if self.excluded.is_empty() {
            return Ok(());
        }
        self.excluded.sort_unstable();
        // None of these is inside another one. What excludes nearly all, such as `allow 0.0.0.0/0`, is a default.
        let mut around: Vec<Prefix> = Vec::new();
        for prefix in self.excluded.iter().filter(|prefix| !prefix.is_too_wide()) {
            if around.last().is_none_or(|wide| !wide.contains(prefix)) {
                around.push(*prefix);
            }
        }
        let why = |prefix: &Prefix| {
            let next = self.excluded.partition_point(|other| other < prefix);
            let inside = self.excluded.get(next).filter(|other| prefix.contains(other)).map(|it| ("contains", it));
            let before = around.partition_point(|other| other < prefix).checked_sub(1);
            let wide = || around.get(before?).filter(|other| other.contains(prefix)).map(|it| ("is inside", it));
            let (how, other) = inside.or_else(wide)?;
            Some(format!("{how} {other}, which the list excludes elsewhere, so it is left out"))
        };
        let taken = std::mem::take(&mut self.feed.prefixes);
        let (mut groups, mut begin) = (self.groups.iter().peekable(), 0);
        let mut out = Vec::new();
        while begin < taken.len() {
            let group = groups.next_if(|(first, _)| *first as usize == begin);
            let end = group.map_or(begin + 1, |(_, end)| *end as usize);
            let entry = taken.get(begin..end).unwrap_or_default();
            match entry.iter().find_map(|(prefix, line)| Some((why(prefix)?, *line))) {
                None => self.feed.prefixes.extend_from_slice(entry),
                Some(_) if self.feed.bad.len() >= MOST_BAD => return Err(FeedError::Bad),
                Some((why, line)) => {
                    self.feed.bad.push(Bad { line, why });
                    self.feed.usable = self.feed.usable.saturating_sub(1);
                    out.push(begin as u32..end as u32);
                }
            }
            begin = end;
        }
        let is_out = |at: u32| {
            let next = out.partition_point(|range| range.end <= at);
            out.get(next).is_some_and(|range| range.contains(&at))
        };
        let mut cuts = self.cuts.iter();
        self.feed.cut.retain(|_| cuts.next().is_some_and(|at| !is_out(*at)));
        self.cuts.retain(|at| !is_out(*at));
        Ok(())
    }
}
