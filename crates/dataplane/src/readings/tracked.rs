//! Tracked sources with their counters from buckets and sliding logs.

use std::{
    collections::{HashMap, HashSet},
    os::fd::AsFd as _,
    time::Duration,
};

use aya::maps::IterableMap;
use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    identity::source::Source,
    maps::control::FEATURE_SLIDING_LOGS,
};

use super::gauges;
use crate::{
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

/// Returns all tracked sources with their buckets, including what sliding logs have counted. Sources that come or
/// go meanwhile may be missing.
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
    bpf::each::<Source, Bucket>(IterableMap::map(tables.buckets.open()?).fd().as_fd(), |source, bucket| {
        visit(source, counted.with(&source, bucket));
    })?;
    counted.rest(visit);
    Ok(())
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
    let mut see = |source: Source, bucket| visit(source, counted.with(&source, bucket));
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
    if !is_complete && next_chain < begin {
        return Ok(f64::from(chains - begin + next_chain) / f64::from(chains));
    }
    counted.rest(visit);
    Ok(1.0)
}

/// What sliding logs have counted beside the buckets.
struct Counted {
    /// The buckets of logs whose sources were not seen yet.
    logs: HashMap<Source, Bucket>,
}

impl Counted {
    fn of(tables: &Tables) -> Result<Self, Error> {
        let mut logs = HashMap::new();
        if tables.control()?.features & FEATURE_SLIDING_LOGS != 0 {
            bpf::each::<Source, Log>(IterableMap::map(tables.logs.open()?).fd().as_fd(), |source, log| {
                logs.insert(source, log.bucket);
            })?;
        }
        Ok(Self { logs })
    }

    /// Returns the bucket with what was counted beside it.
    fn with(&mut self, source: &Source, mut bucket: Bucket) -> Bucket {
        if self.logs.is_empty() {
            return bucket;
        }
        if let Some(log) = self.logs.remove(source) {
            bucket.add_log(&log);
        }
        bucket
    }

    /// Calls `visit` with the sources that have a log only.
    fn rest(self, mut visit: impl FnMut(Source, Bucket)) {
        self.logs.into_iter().for_each(|(source, bucket)| visit(source, bucket));
    }
}
