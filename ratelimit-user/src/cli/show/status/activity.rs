//! What happens now: rates of all packets, and the sources with the highest ones.

use std::{
    cmp::Reverse,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_common::{buckets::bucket::Bucket, identity::source::Source, reason::Reason};
use ratelimit_dataplane::{
    readings::{
        rates::{Moment, Rates},
        source_counts::{SourceCounts, packets},
        worst::{Found, Search, by_drops},
    },
    tables::open::Tables,
};

use crate::cli::print::source_row::{Describe, PerSecond, Row};

/// CPU time for the search of the worst sources. It finds a part of them if there are very many.
const SEARCH: Duration = Duration::from_millis(30);
/// Time between the two readings.
const GAP: Duration = Duration::from_millis(40);
/// Sources that are read twice.
const CANDIDATES: usize = 64;
/// Sources that are shown.
const SHOWN: usize = 5;

/// What happens now.
pub(super) struct Activity {
    pub(super) now: Rates,
    /// Refused packets per second, also in shadow.
    pub(super) refused: Vec<(Reason, u64)>,
    pub(super) worst: Vec<Row>,
    pub(super) found: Found,
}

/// The first of two readings.
pub(super) struct Begun<'a> {
    tables: &'a Tables,
    counts: SourceCounts<'a>,
    all: Moment,
    sources: Vec<(Source, Reading)>,
    found: Found,
}

/// The packets of a source at one time.
struct Reading {
    at: Instant,
    packets: [u64; 3],
}

impl<'a> Begun<'a> {
    pub(super) fn of(tables: &'a Tables) -> Result<Self> {
        let counts = SourceCounts::of(tables)?;
        let rank = |source: &Source, bucket: &Bucket| (counts.is_refused(source), by_drops(source, bucket));
        let search = Search { most: CANDIDATES, budget: Some(SEARCH), rank, is_wanted: |_: &Source| true };
        let mut found = search.find(tables)?;
        let sources = std::mem::take(&mut found.sources).into_iter();
        let sources = sources.map(|(source, _)| Ok((source, Reading::of(&counts, &source)?.0)));
        let sources = sources.collect::<Result<_>>()?;
        Ok(Self { tables, all: Moment::now(tables)?, counts, sources, found })
    }

    /// Reads again, some time after the first reading.
    pub(super) fn end(self) -> Result<Activity> {
        thread::sleep(GAP.saturating_sub(self.all.age()));
        let all = Moment::now(self.tables)?;
        let describe = Describe::with(self.tables)?;
        let mut worst = Vec::new();
        for (source, before) in &self.sources {
            let (now, bucket) = Reading::of(&self.counts, source)?;
            let rates = describe.rates(source, before.packets, &bucket, now.at.duration_since(before.at))?;
            worst.push((rates, *source, bucket));
        }
        worst.sort_by_key(|(rates, source, bucket)| {
            let [passed, refused] = rates.ranks();
            Reverse((refused, by_drops(source, bucket).0, passed))
        });
        worst.truncate(SHOWN);
        let row = |(rate, source, bucket): (PerSecond, Source, Bucket)| describe.row(&source, &bucket, Some(rate));
        Ok(Activity {
            now: all.since(&self.all),
            refused: all.refused_since(&self.all),
            worst: worst.into_iter().map(row).collect::<Result<_>>()?,
            found: self.found,
        })
    }
}

impl Reading {
    fn of(counts: &SourceCounts<'_>, source: &Source) -> Result<(Self, Bucket)> {
        let bucket = counts.tracked(source)?.unwrap_or_default();
        Ok((Self { at: Instant::now(), packets: packets(&bucket) }, bucket))
    }
}
