//! What is remembered of sources, wherever it is kept.

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

impl Tables {
    /// Buckets that there are.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn buckets_in_use(&self) -> Result<usize, Error> {
        let buckets: Vec<(Source, Bucket)> = bpf::entries(IterableMap::map(&self.buckets).fd().as_fd())?;
        Ok(buckets.len())
    }

    /// All tracked sources with their buckets, and what the notes of their cells have counted since. Sources that come and go meanwhile may
    /// be missed or be there.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn tracked(&self) -> Result<Vec<(Source, Bucket)>, Error> {
        let mut tracked: Vec<(Source, Bucket)> = bpf::entries(IterableMap::map(&self.buckets).fd().as_fd())?;
        let features = self.control()?.features;
        if features & FEATURE_SLIDING_LOGS != 0 {
            self.add_logs(&mut tracked)?;
        }
        if features & FEATURE_FRONT != 0 {
            self.add_notes(&mut tracked)?;
        }
        Ok(tracked)
    }

    /// Adds what logs have counted, to the buckets of their sources where there are such.
    fn add_logs(&self, tracked: &mut Vec<(Source, Bucket)>) -> Result<(), Error> {
        let logs: Vec<(Source, Log)> = bpf::entries(IterableMap::map(&self.logs).fd().as_fd())?;
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
            // What was dropped by the limit before this one counts no more if one of both was in shadow.
            if (sum.dropped_packets ^ bucket.dropped_packets) & IN_SHADOW == 0 {
                sum.dropped_packets += bucket.dropped_packets & !IN_SHADOW;
                sum.dropped_bytes += bucket.dropped_bytes;
            } else if bucket.dropped_packets & !IN_SHADOW != 0 {
                (sum.dropped_packets, sum.dropped_bytes) = (bucket.dropped_packets, bucket.dropped_bytes);
            }
        }
        Ok(())
    }

    /// Adds what the notes of their cells have counted. A note is about the service of its packets, whichever is billed.
    fn add_notes(&self, tracked: &mut [(Source, Bucket)]) -> Result<(), Error> {
        let seed = self.control()?.seed;
        let cells = Mapped::<Cell>::of(self.front.map())?;
        let everything = self.control()?.features & FEATURE_SHADOW != 0;
        let mut noted = collections::HashMap::<(Source, u64), Count>::new();
        for (source, bucket) in &*tracked {
            let hash = source.hash(&seed);
            let index = cell::index(hash, self.front.len()) as usize;
            let Some(cell) = cells.get(index) else { continue };
            for note in cell.notes.iter().filter(|noted| noted.dropped != 0 && noted.note().is_about(hash)) {
                let billed = Resolution(bucket.resolution).billed().map_or(*source, |class| source.of_class(class));
                let passes = everything || note.note().action() == SHADOW;
                let count = noted.entry((billed, if passes { IN_SHADOW } else { 0 })).or_default();
                count.packets += Dropped(note.dropped).packets();
                count.bytes += Dropped(note.dropped).bytes();
            }
        }
        for (source, bucket) in tracked {
            // As the program counts them: where there is something before, only what is like it.
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
}
