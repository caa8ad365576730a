//! The requests of the last hour, within bounds: what a rule would have refused of them.
//!
//! Of each client, only the last ones stay. If they do not fit, only those of some clients stay. So a client with many
//! requests takes no history from others.

mod replay;
mod shard;

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    hash::BuildHasher as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use ratelimit_limiter::ADDRESS;

use self::shard::{Request, Shard};
pub(super) use self::{
    replay::{MANY, Replayed, chooses_clients, replay},
    shard::OF_CLIENT,
};

/// The most requests.
const MOST: usize = 1 << 16;
/// The most bytes of all of them.
const BYTES: usize = 16 << 20;
/// The longest names and values of a request, in bytes. Longer ones are left out.
const LONGEST: usize = 1 << 10;
/// How long a request stays, in nanoseconds.
const LIFE: u64 = 3_600_000_000_000;
/// The time after which more clients are noted again, in nanoseconds.
const CALM: u64 = LIFE / 6;
/// The smallest part of the clients: one of 65,536.
const SMALLEST: u64 = (1 << 16) - 1;
/// Parts of the clients, each with a lock of its own. The first bits of a hash choose one.
const SHARDS: usize = 1 << (u64::BITS - SHIFT);
const SHIFT: u32 = 60;
/// The attributes that tell clients apart. The first one that a request has counts.
const IDENTITIES: [&str; 3] = ["user", "key", ADDRESS];

/// The requests of the last hour.
#[derive(Debug)]
pub(super) struct Recent {
    hasher: RandomState,
    /// Requests of clients whose hash has one of these bits are left out.
    mask: AtomicU64,
    /// Since when the mask has let in all that are here. Who changes the mask holds it.
    since: Mutex<u64>,
    shards: [Mutex<Shard>; SHARDS],
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

/// The requests of some time.
#[derive(Debug)]
pub(super) struct Sample {
    /// Ordered by time.
    requests: Vec<Arc<Request>>,
    /// Random and secret.
    seed: [u64; 2],
    /// One of so many clients is in it.
    pub(super) one_of: u64,
    /// Clients that had more requests in this time than are in it.
    pub(super) cut: usize,
    /// The time that it covers.
    pub(super) span: Duration,
}

impl Recent {
    pub(super) fn new(now: u64) -> Self {
        Self {
            hasher: RandomState::default(),
            mask: AtomicU64::default(),
            since: Mutex::new(now),
            shards: Default::default(),
            requests: AtomicUsize::default(),
            bytes: AtomicUsize::default(),
        }
    }

    /// Notes a request. One that costs nothing asks only what would be.
    pub(super) fn note(&self, attributes: &BTreeMap<String, String>, cost: u32, now: u64) {
        let length: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        let identity = IDENTITIES.iter().find_map(|name| attributes.get(*name));
        // Without a name, each request stands for itself.
        let hash = identity.map_or_else(|| self.hasher.hash_one(now), |value| self.hasher.hash_one(value));
        if cost == 0 || length > LONGEST || hash & self.mask.load(Relaxed) != 0 {
            return;
        }
        let request = Arc::new(Request::new(attributes, cost, now));
        let bytes = BYTES - request.bytes();
        if self.is_above(MOST - 1, bytes) {
            self.note_fewer(bytes);
        }
        let shard = self.shards.get((hash >> SHIFT) as usize);
        // What is removed is freed without the lock.
        let _removed = shard.and_then(|shard| {
            let mut shard = lock(shard);
            // The mask may have changed meanwhile.
            let is_out = hash & self.mask.load(Relaxed) != 0 || self.is_above(MOST - 1, bytes);
            if is_out { None } else { self.counted(&mut shard, |shard| shard.add(hash, request)) }
        });
    }

    fn is_above(&self, requests: usize, bytes: usize) -> bool {
        self.requests.load(Relaxed) > requests || self.bytes.load(Relaxed) > bytes
    }

    /// Changes a shard, and counts what that adds and removes.
    fn counted<T>(&self, shard: &mut Shard, change: impl FnOnce(&mut Shard) -> T) -> T {
        let (requests, bytes) = (shard.requests, shard.bytes);
        let done = change(shard);
        self.requests.fetch_add(shard.requests.wrapping_sub(requests), Relaxed);
        self.bytes.fetch_add(shard.bytes.wrapping_sub(bytes), Relaxed);
        done
    }

    /// Leaves out half of the clients, until the others have so few bytes. No thread waits if another one does it.
    fn note_fewer(&self, bytes: usize) {
        let Ok(_turn) = self.since.try_lock() else { return };
        let mut mask = self.mask.load(Relaxed);
        while mask < SMALLEST && self.is_above(MOST - 1, bytes) {
            mask = mask << 1 | 1;
            self.mask.store(mask, Relaxed);
            for shard in &self.shards {
                let removed = self.counted(&mut lock(shard), |shard| shard.leave_out(mask));
                drop(removed);
            }
        }
    }

    /// Forgets requests that are older than an hour. Notes more clients again if there has been room for a while.
    pub(super) fn tidy(&self, now: u64) {
        for shard in &self.shards {
            let removed = self.counted(&mut lock(shard), |shard| shard.expire(now.saturating_sub(LIFE)));
            drop(removed);
        }
        let mut since = lock(&self.since);
        let mut mask = self.mask.load(Relaxed);
        if mask == 0 || since.saturating_add(CALM) >= now {
            return;
        }
        let (mut requests, mut bytes) = (self.requests.load(Relaxed), self.bytes.load(Relaxed));
        while mask > 0 && requests < MOST / 4 && bytes < BYTES / 4 {
            // Twice the clients are expected to have twice the requests.
            (mask, requests, bytes) = (mask >> 1, 2 * requests, 2 * bytes);
            *since = now;
        }
        self.mask.store(mask, Relaxed);
    }

    /// Returns the requests of the last hour, as far as all those of the noted clients are known.
    pub(super) fn sample(&self, now: u64) -> Sample {
        self.tidy(now);
        let mut found = Vec::new();
        let (mask, since) = self.bounds();
        let before = (mask, since.max(now.saturating_sub(LIFE)));
        let cut = self.shards.iter().map(|shard| lock(shard).read(before, &mut found)).sum();
        // Other clients may have been left out or let in meanwhile.
        let (mask, since) = self.bounds();
        let (mask, since) = (mask | before.0, since.max(before.1));
        let mut requests: Vec<_> =
            found.into_iter().filter(|(hash, request)| hash & mask == 0 && request.at >= since).collect();
        requests.sort_by_key(|(_, request)| request.at);
        Sample {
            requests: requests.into_iter().map(|(_, request)| request).collect(),
            seed: [0, 1].map(|number: u8| self.hasher.hash_one(number)),
            one_of: mask + 1,
            cut,
            span: Duration::from_nanos(now.saturating_sub(since).min(LIFE)),
        }
    }

    /// Returns which clients are left out, and since when.
    fn bounds(&self) -> (u64, u64) {
        let since = lock(&self.since);
        (self.mask.load(Relaxed), *since)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
