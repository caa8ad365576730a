//! How many packets sources send, from two looks at their buckets.
//!
//! Its memory has a fixed size, whatever sources there are: sources in the same place displace each other.

use std::time::Duration;

use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::source::Source,
    limits::limit::SECOND,
    maps::control::{FEATURE_FRONT, FEATURE_SAMPLE, SAMPLE_RATE},
};

use super::tracked;
use crate::{Error, rules::resolve, sys::host, tables::open::Tables};

/// Places: 1.5 MB.
const PLACES: usize = 1 << 16;
/// Packets, or refused ones, below which a source has no place. Forged addresses send few.
const FEWEST: u64 = 8;
/// Packets instead where samples count them. One sample counts as many.
const SAMPLED: u64 = SAMPLE_RATE + 1;
/// Buckets that are read at one time. Reading the clock takes longer than reading a bucket.
const SAME_TIME: u32 = 64;
/// Time after which an old look tells nothing.
const OLD: u64 = 30 * SECOND;

/// The last look.
pub struct Busy {
    places: Box<[Place]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    hash: u64,
    packets: u64,
    time: u64,
}

/// A source at a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// The source.
    pub source: Source,
    /// Its hash.
    pub hash: u64,
    /// Packets per second since the last look.
    pub rate: f64,
}

impl Default for Busy {
    fn default() -> Self {
        Self { places: vec![Place::default(); PLACES].into_boxed_slice() }
    }
}

impl Busy {
    /// Looks at as many buckets as this much CPU time allows, and calls `visit` with sources that were seen twice.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn look(&mut self, tables: &Tables, budget: Duration, mut visit: impl FnMut(Seen)) -> Result<(), Error> {
        let control = tables.control()?;
        let is_sampled = control.features & FEATURE_FRONT != 0 && control.features & FEATURE_SAMPLE != 0;
        let (seed, fewest) = (control.seed, if is_sampled { SAMPLED } else { FEWEST });
        let (mut now, mut buckets) = (0, 0u32);
        tracked::within(tables, budget, |source, bucket| {
            if buckets.is_multiple_of(SAME_TIME) {
                now = host::now();
            }
            buckets = buckets.wrapping_add(1);
            if resolve::is_source(&source, &bucket) {
                let hash = source.hash(&seed);
                if let Some(rate) = self.rate(hash, &bucket, fewest, now) {
                    visit(Seen { source, hash, rate });
                }
            }
        })?;
        Ok(())
    }

    fn rate(&mut self, hash: u64, bucket: &Bucket, fewest: u64, now: u64) -> Option<f64> {
        let packets = bucket.passed() + bucket.over_limit();
        if packets < fewest && bucket.over_limit() < FEWEST {
            return None;
        }
        // Its lower bits select the place of a lease.
        let place = self.places.get_mut((hash >> 40) as usize % PLACES)?;
        let last = std::mem::replace(place, Place { hash, packets, time: now });
        let passed = now.saturating_sub(last.time);
        let is_known = last.hash == hash && (1..OLD).contains(&passed) && packets >= last.packets;
        is_known.then(|| (packets - last.packets) as f64 * SECOND as f64 / passed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_a_rate_from_its_second_look_on() {
        let mut busy = Busy::default();
        let mut rate = |packets, now| busy.rate(7 << 40, &Bucket::counting([packets, packets, 0]), 8, now);
        assert_eq!(rate(50, 10 * SECOND), None);
        assert_eq!(rate(150, 12 * SECOND), Some(100.0));
        assert_eq!(rate(150, 13 * SECOND), Some(0.0));
        // Another bucket of it, and a look that is too old.
        assert_eq!(rate(50, 14 * SECOND), None);
        assert_eq!(rate(51, 50 * SECOND), None);
    }

    #[test]
    fn a_refused_source_needs_no_further_packets() {
        let mut busy = Busy::default();
        let mut rate = |dropped, now| busy.rate(7 << 40, &Bucket::counting([1, dropped, 0]), SAMPLED, now);
        assert_eq!((rate(7, SECOND), rate(7, 2 * SECOND)), (None, None));
        assert_eq!((rate(10, 3 * SECOND), rate(60, 4 * SECOND)), (None, Some(50.0)));
    }

    #[test]
    fn sources_with_few_packets_displace_none() {
        let mut busy = Busy::default();
        let mut rate = |hash: u64, packets, now| busy.rate(hash << 40, &Bucket::counting([packets, 0, 0]), 8, now);
        assert_eq!(rate(7, 100, SECOND), None);
        assert_eq!(rate(7 + (1 << 16), 3, SECOND), None);
        assert_eq!(rate(7, 200, 2 * SECOND), Some(100.0));
    }
}
