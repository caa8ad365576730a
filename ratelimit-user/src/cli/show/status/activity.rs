//! What happens now: rates of all packets, and the sources with the highest ones.

use std::{
    cmp::Reverse,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_common::{buckets::bucket::Bucket, identity::source::Source, reason::Reason};

use crate::{
    cli::print::source_row::{Describe, PerSecond, Row},
    dataplane::{
        readings::{
            rates::{Moment, Rates, per},
            source_drops::Drops,
            worst::{Found, Search, by_drops},
        },
        tables::open::Tables,
    },
};

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
    drops: Drops<'a>,
    all: Moment,
    sources: Vec<(Source, Bucket, Reading)>,
    found: Found,
}

/// The counters of a source at one time.
struct Reading {
    at: Instant,
    passed: u64,
    over: u64,
}

impl<'a> Begun<'a> {
    pub(super) fn of(tables: &'a Tables) -> Result<Self> {
        let drops = Drops::of(tables)?;
        let rank = |source: &Source, bucket: &Bucket| (drops.is_refused(source), by_drops(source, bucket));
        let search = Search { most: CANDIDATES, budget: Some(SEARCH), rank, is_wanted: |_: &Source| true };
        let mut found = search.find(tables)?;
        let sources = std::mem::take(&mut found.sources).into_iter();
        let sources = sources.map(|(source, bucket)| Ok((source, bucket, Reading::of(&drops, &source)?)));
        let sources = sources.collect::<Result<_>>()?;
        Ok(Self { tables, all: Moment::now(tables)?, drops, sources, found })
    }

    /// Reads again, some time after the first reading.
    pub(super) fn end(self) -> Result<Activity> {
        thread::sleep(GAP.saturating_sub(self.all.age()));
        let all = Moment::now(self.tables)?;
        let describe = Describe::with(self.tables)?;
        let mut worst = Vec::new();
        for (source, bucket, before) in &self.sources {
            let rate = Reading::of(&self.drops, source)?.since(before, bucket.is_in_shadow());
            worst.push((rate, *source, *bucket));
        }
        worst.sort_by_key(|(rate, source, bucket)| {
            Reverse((rate.dropped + rate.would_drop, by_drops(source, bucket).0, rate.passed))
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
    fn of(drops: &Drops<'_>, source: &Source) -> Result<Self> {
        let over = drops.of_source(source)?.map_or(0, |count| count.packets);
        Ok(Self { at: Instant::now(), passed: drops.passed(source)?, over })
    }

    fn since(&self, before: &Self, is_in_shadow: bool) -> PerSecond {
        let time = self.at.duration_since(before.at);
        let over = per(self.over.saturating_sub(before.over), time);
        let (dropped, would_drop) = if is_in_shadow { (0, over) } else { (over, 0) };
        let passed = per(self.passed.saturating_sub(before.passed), time);
        PerSecond { passed, dropped, would_drop, estimated: false }
    }
}
