//! The sources that the screen follows: those with the highest rates of all that were found so far.

use std::{cmp::Reverse, collections::HashMap, time::Duration, time::Instant};

use anyhow::Result;
use ratelimit_common::{buckets::bucket::Bucket, identity::source::Source};
use ratelimit_dataplane::{
    readings::{
        source_counts::{SourceCounts, packets, rates},
        worst::{Found, Search, by_drops, by_passes},
    },
    tables::open::Tables,
};

/// CPU time of one search. With very many sources, each search reads a part of them.
const SEARCH: Duration = Duration::from_millis(15);
/// The most sources to follow.
const MOST: usize = 128;

/// What sources are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Packets over a limit.
    Refused,
    /// Packets that passed.
    Passed,
}

/// One source at two readings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed {
    pub(super) source: Source,
    /// Its counters.
    pub(super) bucket: Bucket,
    /// Packets per second that passed, that were dropped, and that passed in shadow. None after one reading.
    pub(super) per_second: Option<[u64; 3]>,
    at: Instant,
}

impl Followed {
    fn rank(&self, by: By) -> impl Ord + use<> {
        let [passed, dropped, would_drop] = self.per_second.unwrap_or_default();
        let (refused, all_passed, all_refused) = (dropped + would_drop, self.bucket.passed(), self.bucket.over_limit());
        let ranks = match by {
            By::Refused => [refused, all_refused, passed, all_passed],
            By::Passed => [passed, all_passed, refused, all_refused],
        };
        (Reverse(ranks), self.source.address())
    }
}

/// All of them, and those that the last search has found. A new source has no rate yet, so it is read twice before it
/// competes with others.
#[derive(Debug, Default)]
pub(super) struct Sources(HashMap<Source, Followed>);

impl Sources {
    /// Searches for more, and reads all again. Returns them in their order, and what the search has found.
    pub(super) fn read(&mut self, tables: &Tables, by: By) -> Result<(Vec<Followed>, Found)> {
        let counts = SourceCounts::of(tables)?;
        let found = {
            let rank = |source: &Source, bucket: &Bucket| {
                let is_refused = by == By::Refused && counts.is_refused(source);
                (is_refused, if by == By::Refused { by_drops(source, bucket) } else { by_passes(source, bucket) })
            };
            Search { most: MOST, budget: Some(SEARCH), rank, is_wanted: |_: &Source| true }.find(tables)?
        };
        let mut now = Vec::new();
        let new = found.sources.iter().map(|(source, _)| *source).filter(|source| !self.0.contains_key(source));
        for source in self.0.keys().copied().chain(new) {
            if let Some(followed) = self.follow(&counts, source)? {
                now.push(followed);
            }
        }
        let is_new = |followed: &Followed| followed.per_second.is_none();
        let newcomers: Vec<_> = now.iter().filter(|followed| is_new(followed)).copied().collect();
        now.sort_by_cached_key(|followed| followed.rank(by));
        now.truncate(MOST);
        self.0 = now.iter().copied().chain(newcomers).map(|followed| (followed.source, followed)).collect();
        Ok((now, found))
    }

    /// Reads one source. None if it is no longer tracked.
    fn follow(&self, counts: &SourceCounts<'_>, source: Source) -> Result<Option<Followed>> {
        let Some(bucket) = counts.tracked(&source)? else { return Ok(None) };
        let at = Instant::now();
        let rates = |before: &Followed| rates(&bucket, packets(&before.bucket), at.duration_since(before.at));
        let per_second = self.0.get(&source).map(rates);
        Ok(Some(Followed { source, bucket, per_second, at }))
    }
}
