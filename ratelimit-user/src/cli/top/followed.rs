//! The sources that the screen follows: those with the highest rates of all that were found so far.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_common::{buckets::bucket::Bucket, identity::source::Source};
use ratelimit_dataplane::{
    readings::{
        sampling::SAMPLES,
        source_counts::{self, SourceCounts, packets},
        worst::{Found, Search, by_drops, by_passes},
    },
    tables::open::Tables,
};

use crate::cli::print::source_row::{Describe, PerSecond};

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

/// The readings of a source that are kept. Its rate by samples is that of as many as needed.
const READINGS: usize = 10;
/// Samples that make a rate, unless all readings together have fewer.
const ENOUGH: u64 = 16;

/// One source at several readings.
#[derive(Debug, Clone)]
pub(super) struct Followed {
    pub(super) source: Source,
    /// Its counters.
    pub(super) bucket: Bucket,
    /// None after one reading.
    pub(super) per_second: Option<PerSecond>,
    readings: Readings,
}

/// The time of a reading, with the packets that had passed, were dropped, and had passed in shadow.
type Reading = (Instant, [u64; 3]);
/// The last one comes first.
type Readings = VecDeque<Reading>;

impl Followed {
    fn rank(&self, by: By) -> impl Ord + use<> {
        let [passed, refused] = self.per_second.unwrap_or_default().ranks();
        let (all_passed, all_refused) = (self.bucket.passed(), self.bucket.over_limit());
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
    pub(super) fn read(&mut self, tables: &Tables, describe: &Describe<'_>, by: By) -> Result<(Vec<Followed>, Found)> {
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
            if let Some(followed) = self.follow(&counts, describe, source)? {
                now.push(followed);
            }
        }
        let is_new = |followed: &Followed| followed.per_second.is_none();
        let newcomers: Vec<_> = now.iter().filter(|followed| is_new(followed)).cloned().collect();
        now.sort_by_cached_key(|followed| followed.rank(by));
        now.truncate(MOST);
        self.0 = now.iter().cloned().chain(newcomers).map(|followed| (followed.source, followed)).collect();
        Ok((now, found))
    }

    /// Reads one source. None if it is no longer tracked.
    fn follow(&self, counts: &SourceCounts<'_>, describe: &Describe<'_>, source: Source) -> Result<Option<Followed>> {
        let Some(bucket) = counts.tracked(&source)? else { return Ok(None) };
        let (at, now) = (Instant::now(), packets(&bucket));
        let mut readings = self.0.get(&source).map_or_else(Readings::new, |before| before.readings.clone());
        let goes_on = |(_, before): &Reading| before.iter().zip(now).all(|(before, now)| *before <= now);
        if readings.front().is_some_and(|last| !goes_on(last)) {
            // The source has another bucket.
            readings.clear();
        }
        let per_second = rates(describe, &source, &bucket, at, &readings)?;
        readings.truncate(READINGS - 1);
        readings.push_front((at, now));
        Ok(Some(Followed { source, bucket, per_second, readings }))
    }
}

/// Returns the rates of a source since its last reading. One that samples make is that since an earlier reading.
fn rates(
    describe: &Describe<'_>,
    source: &Source,
    bucket: &Bucket,
    at: Instant,
    readings: &Readings,
) -> Result<Option<PerSecond>> {
    let (Some(last), Some(first)) = (readings.front(), readings.back()) else { return Ok(None) };
    let [passed, _] = describe.have_samples(source, first.1, bucket, at.duration_since(first.0))?;
    let [_, refused] = describe.have_samples(source, last.1, bucket, at.duration_since(last.0))?;
    let since = |is_estimate: bool, side: usize| {
        let has_enough = |(_, before): &&Reading| {
            let [passed, dropped, would_drop] = source_counts::since(bucket, *before);
            [passed, dropped + would_drop][side] >= ENOUGH * SAMPLES[side]
        };
        let (from, before) = if is_estimate { readings.iter().find(has_enough).unwrap_or(first) } else { last };
        PerSecond::between(*before, bucket, at.duration_since(*from), [passed, refused])
    };
    let (of_passed, of_refused) = (since(passed, 0), since(refused, 1));
    Ok(Some(PerSecond { passed: of_passed.passed, few: [of_passed.few[0], of_refused.few[1]], ..of_refused }))
}
