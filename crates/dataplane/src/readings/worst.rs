//! The tracked sources that rank highest by some measure.

use std::{cmp::Reverse, time::Duration};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{buckets::bucket::Bucket, identity::source::Source, maps::control::SAMPLE_RATE};

use super::tracked;
use crate::{Error, rules::resolve, tables::open::Tables};

/// A measure, and what else to find.
pub struct Search<R, W> {
    /// The most sources to return.
    pub most: usize,
    /// CPU time to spend. None reads all buckets.
    pub budget: Option<Duration>,
    /// The rank of a source. The highest comes first.
    pub rank: R,
    /// Whether a source may be returned.
    pub is_wanted: W,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Sources and their buckets, the highest rank first. A source can have several, for services.
    pub sources: Vec<(Source, Bucket)>,
    /// Wanted sources that were read.
    pub wanted: usize,
    /// All sources that were read, once for each service with rules.
    pub tracked: usize,
    /// Those of which one packet or one sample was counted.
    pub seen_once: usize,
    /// Buckets that were read, also of parents.
    pub buckets: usize,
    /// The part of all buckets that was read: 1 if the search was complete.
    pub part: f64,
}

impl Found {
    /// Returns what a number of read sources says about all of them.
    #[must_use]
    pub fn of_all(&self, read: usize) -> usize {
        if self.part > 0.0 { (read as f64 / self.part).round() as usize } else { read }
    }
}

impl<R, O, W> Search<R, W>
where
    R: Fn(&Source, &Bucket) -> O,
    O: Ord,
    W: Fn(&Source) -> bool,
{
    /// Reads the buckets, and keeps the highest only.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn find(&self, tables: &Tables) -> Result<Found, Error> {
        let mut found = Found { part: 1.0, ..Found::default() };
        let visit = |source: Source, bucket: Bucket| {
            found.buckets += 1;
            if !resolve::is_source(&source, &bucket) {
                return;
            }
            found.tracked += 1;
            let packets = bucket.passed() + bucket.over_limit();
            found.seen_once += usize::from(matches!(packets, 1 | SAMPLE_RATE));
            if (self.is_wanted)(&source) {
                found.wanted += 1;
                self.add(&mut found.sources, (source, bucket));
            }
        };
        let part = match self.budget {
            Some(budget) => tracked::within(tables, budget, visit)?,
            None => tracked::each(tables, visit).map(|()| 1.0)?,
        };
        found.part = part;
        found.sources.sort_unstable_by_key(|entry| self.key(entry));
        found.sources.truncate(self.most);
        Ok(found)
    }

    /// Adds a source. Lower ones go whenever there are twice as many as needed.
    fn add(&self, sources: &mut Vec<(Source, Bucket)>, entry: (Source, Bucket)) {
        sources.push(entry);
        let room = self.most.saturating_mul(2).max(1_000);
        if sources.len() >= room {
            sources.select_nth_unstable_by_key(self.most, |entry| self.key(entry));
            sources.truncate(self.most);
        }
    }

    fn key(&self, (source, bucket): &(Source, Bucket)) -> (Reverse<O>, Prefix, u16) {
        (Reverse((self.rank)(source, bucket)), Prefix::of(source, source.prefix), source.class)
    }
}

/// Ranks sources by drops, and those with equal drops by packets that passed.
#[must_use]
pub const fn by_drops(_: &Source, bucket: &Bucket) -> (u64, u64) {
    (bucket.over_limit(), bucket.passed())
}

/// Ranks sources by packets that passed, and equal ones by drops.
#[must_use]
pub const fn by_passes(_: &Source, bucket: &Bucket) -> (u64, u64) {
    (bucket.passed(), bucket.over_limit())
}
