//! Tracked sources with their counters from buckets, sliding logs and cached refusals.

use std::{collections, os::fd::AsFd as _};

use aya::maps::IterableMap;
use ratelimit_common::{
    buckets::{
        bucket::{Bucket, IN_SHADOW, Resolution},
        sliding_log::Log,
    },
    cells::{
        cell::{self, Cell},
        dropped::Dropped,
    },
    identity::source::Source,
    limits::policy::SHADOW,
    maps::control::{FEATURE_FRONT, FEATURE_SHADOW, FEATURE_SLIDING_LOGS},
    reason::Count,
};

use crate::dataplane::{
    Error,
    sys::{bpf, mmap_array::Mapped},
    tables::open::Tables,
};

/// Returns the number of buckets.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn buckets_in_use(tables: &Tables) -> Result<usize, Error> {
    let buckets: Vec<(Source, Bucket)> = bpf::entries(IterableMap::map(tables.buckets.open()?).fd().as_fd())?;
    Ok(buckets.len())
}

/// Returns all tracked sources with their buckets, including what sliding logs and cached refusals have counted.
/// Sources that come or go meanwhile may be missing.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn all(tables: &Tables) -> Result<Vec<(Source, Bucket)>, Error> {
    let mut tracked: Vec<(Source, Bucket)> = bpf::entries(IterableMap::map(tables.buckets.open()?).fd().as_fd())?;
    let features = tables.control()?.features;
    if features & FEATURE_SLIDING_LOGS != 0 {
        add_logs(tables, &mut tracked)?;
    }
    if features & FEATURE_FRONT != 0 {
        add_cached_refusals(tables, &mut tracked)?;
    }
    Ok(tracked)
}

/// Adds the counters of sliding logs to the buckets of their sources.
fn add_logs(tables: &Tables, tracked: &mut Vec<(Source, Bucket)>) -> Result<(), Error> {
    let logs: Vec<(Source, Log)> = bpf::entries(IterableMap::map(tables.logs.open()?).fd().as_fd())?;
    let places: collections::HashMap<Source, usize> =
        tracked.iter().enumerate().map(|(place, (source, _))| (*source, place)).collect();
    for (source, Log { bucket, .. }) in logs {
        let Some(place) = places.get(&source) else {
            tracked.push((source, bucket));
            continue;
        };
        let (_, sum) = &mut tracked[*place];
        sum.passed_packets += bucket.passed_packets;
        sum.passed_bytes += bucket.passed_bytes;
        // If one of both was in shadow, only the drops of the present limit count.
        if (sum.dropped_packets ^ bucket.dropped_packets) & IN_SHADOW == 0 {
            sum.dropped_packets += bucket.dropped_packets & !IN_SHADOW;
            sum.dropped_bytes += bucket.dropped_bytes;
        } else if bucket.dropped_packets & !IN_SHADOW != 0 {
            (sum.dropped_packets, sum.dropped_bytes) = (bucket.dropped_packets, bucket.dropped_bytes);
        }
    }
    Ok(())
}

/// Adds the counters of cached refusals. A cached refusal belongs to the service of its packets, also if another is
/// billed.
fn add_cached_refusals(tables: &Tables, tracked: &mut [(Source, Bucket)]) -> Result<(), Error> {
    let seed = tables.control()?.seed;
    let cells = Mapped::<Cell>::of(tables.front.open()?.map())?;
    let everything = tables.control()?.features & FEATURE_SHADOW != 0;
    let mut noted = collections::HashMap::<(Source, u64), Count>::new();
    for (source, bucket) in &*tracked {
        let hash = source.hash(&seed);
        let index = cell::index(hash, cells.len() as u32) as usize;
        let Some(cell) = cells.get(index) else { continue };
        for note in cell.refusals.iter().filter(|noted| noted.dropped != 0 && noted.refusal().is_about(hash)) {
            let billed = Resolution(bucket.resolution).billed().map_or(*source, |class| source.of_class(class));
            let passes = everything || note.refusal().action() == SHADOW;
            let count = noted.entry((billed, if passes { IN_SHADOW } else { 0 })).or_default();
            count.packets += Dropped(note.dropped).packets();
            count.bytes += Dropped(note.dropped).bytes();
        }
    }
    for (source, bucket) in tracked {
        // The program counts either drops or shadow drops. So does this, if the bucket has any.
        let mark = bucket.dropped_packets & IN_SHADOW;
        let marks = if bucket.dropped_packets == 0 { &[0, IN_SHADOW][..] } else { &[mark][..] };
        for mark in marks {
            if let Some(count) = noted.get(&(*source, *mark)) {
                bucket.dropped_packets = (bucket.dropped_packets + count.packets) | mark;
                bucket.dropped_bytes += count.bytes;
            }
        }
    }
    Ok(())
}
