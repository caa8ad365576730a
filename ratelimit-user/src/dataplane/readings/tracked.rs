//! Tracked sources with their counters from buckets, sliding logs and cached refusals.

use std::{
    collections::{HashMap, HashSet},
    os::fd::AsFd as _,
    time::Duration,
};

use aya::maps::IterableMap;
use ratelimit_common::{
    buckets::{
        bucket::{Bucket, Resolution},
        sliding_log::Log,
    },
    identity::source::Source,
    maps::control::FEATURE_SLIDING_LOGS,
};

use super::{gauges, source_drops::Drops};
use crate::dataplane::{
    Error,
    sys::{bpf, host},
    tables::open::Tables,
};

/// Returns the number of buckets.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn buckets_in_use(tables: &Tables) -> Result<usize, Error> {
    let mut buckets = 0;
    bpf::each::<Source, Bucket>(IterableMap::map(tables.buckets.open()?).fd().as_fd(), |_, _| buckets += 1)?;
    Ok(buckets)
}

/// Returns all tracked sources with their buckets, including what sliding logs and cached refusals have counted.
/// Sources that come or go meanwhile may be missing.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn all(tables: &Tables) -> Result<Vec<(Source, Bucket)>, Error> {
    let mut tracked = Vec::new();
    each(tables, |source, bucket| tracked.push((source, bucket)))?;
    Ok(tracked)
}

/// Calls `visit` with each of them, and does not keep them.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn each(tables: &Tables, mut visit: impl FnMut(Source, Bucket)) -> Result<(), Error> {
    let mut counted = Counted::of(tables)?;
    let mut outcome = Ok(());
    bpf::each::<Source, Bucket>(IterableMap::map(tables.buckets.open()?).fd().as_fd(), |source, bucket| match counted
        .with(&source, bucket)
    {
        Ok(bucket) => visit(source, bucket),
        Err(error) => outcome = Err(error),
    })?;
    outcome?;
    counted.rest(visit)
}

/// Calls `visit` with as many of them as this much CPU time allows. Returns the part of the buckets that was read. It
/// begins at another place each time. If the part is 1, `visit` has seen all.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn within(tables: &Tables, budget: Duration, mut visit: impl FnMut(Source, Bucket)) -> Result<f64, Error> {
    let end = host::thread_time() + budget;
    let mut counted = Counted::of(tables)?;
    let map = IterableMap::map(tables.buckets.open()?).fd().as_fd();
    // The kernel's hash table has this many chains.
    let chains = gauges::max_sources(tables)?.next_power_of_two();
    let begin = (host::now() >> 10) as u32 & (chains - 1);
    let mut outcome = Ok(());
    let mut see = |source: Source, bucket| match counted.with(&source, bucket) {
        Ok(bucket) => visit(source, bucket),
        Err(error) => outcome = Err(error),
    };
    let (mut reached, mut first) = (chains, HashSet::new());
    let is_at_end = bpf::each_from(
        map,
        begin,
        |next| {
            reached = next;
            host::thread_time() < end
        },
        |source, bucket| {
            // The last call of the second half may read beyond its end, but not more entries than one call.
            if first.len() < bpf::BATCH {
                first.insert(source);
            }
            see(source, bucket);
        },
    )?;
    if !is_at_end {
        outcome?;
        return Ok(f64::from(reached.saturating_sub(begin)) / f64::from(chains));
    }
    let (mut next_chain, mut is_complete) = (0, true);
    if begin > 0 {
        is_complete = bpf::each_from(
            map,
            0,
            |next| {
                next_chain = next;
                next < begin && host::thread_time() < end
            },
            |source, bucket| {
                if !first.contains(&source) {
                    see(source, bucket);
                }
            },
        )?;
    }
    outcome?;
    if !is_complete && next_chain < begin {
        return Ok(f64::from(chains - begin + next_chain) / f64::from(chains));
    }
    counted.rest(visit)?;
    Ok(1.0)
}

/// What sliding logs and cached refusals have counted beside the buckets.
struct Counted<'a> {
    drops: Drops<'a>,
    /// The buckets of logs whose sources were not seen yet.
    logs: HashMap<Source, Bucket>,
    now: u64,
}

impl<'a> Counted<'a> {
    fn of(tables: &'a Tables) -> Result<Self, Error> {
        let drops = Drops::of(tables)?;
        let mut logs = HashMap::new();
        if tables.control()?.features & FEATURE_SLIDING_LOGS != 0 {
            bpf::each::<Source, Log>(IterableMap::map(tables.logs.open()?).fd().as_fd(), |source, log| {
                logs.insert(source, log.bucket);
            })?;
        }
        Ok(Self { drops, logs, now: host::now() })
    }

    /// Returns the bucket with what was counted beside it.
    fn with(&mut self, source: &Source, bucket: Bucket) -> Result<Bucket, Error> {
        let mut sum = bucket;
        if let Some(log) = self.logs.remove(source) {
            sum.add_log(&log, self.now);
        }
        self.add_cached_refusals(source, &mut sum)?;
        Ok(sum)
    }

    /// Calls `visit` with the sources that have a log only.
    fn rest(mut self, mut visit: impl FnMut(Source, Bucket)) -> Result<(), Error> {
        for (source, mut bucket) in std::mem::take(&mut self.logs) {
            self.add_cached_refusals(&source, &mut bucket)?;
            visit(source, bucket);
        }
        Ok(())
    }

    fn add_cached_refusals(&self, source: &Source, bucket: &mut Bucket) -> Result<(), Error> {
        // Those of a source that another is billed for count there.
        if source.parent != 0 || Resolution(bucket.resolution).billed().is_some() {
            return Ok(());
        }
        // The program counts either drops or shadow drops. So does this, if the bucket has any. A cell does not know
        // whether its interface alone is in shadow, but the bucket does.
        let is_open = bucket.over_limit() == 0;
        let follows_bucket = !is_open && self.drops.may_be_of_shadow_program();
        let is_in_shadow = bucket.is_in_shadow();
        let [dropped, in_shadow] = self.drops.noted_by_fate(source)?;
        for (noted, passes) in [(dropped, false), (in_shadow, true)] {
            let passes = if follows_bucket { is_in_shadow } else { passes };
            if noted.packets != 0 && (is_open || is_in_shadow == passes) {
                bucket.add_over_limit(noted.packets, noted.bytes, passes);
            }
        }
        Ok(())
    }
}
