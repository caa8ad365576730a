//! The requests of the last hour, within bounds: what a rule would have refused of them.
//!
//! If they do not fit, only those of some clients stay. So the history of each of these clients is whole.

mod replay;

use std::{
    collections::{BTreeMap, VecDeque, hash_map::RandomState},
    hash::BuildHasher as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub(super) use self::replay::{Replayed, replay};
use crate::check::ADDRESS;

/// The most requests.
const MOST: usize = 1 << 16;
/// The most bytes of all of them.
const BYTES: usize = 16 << 20;
/// The longest names and values of a request, in bytes. Longer ones are left out.
const LONGEST: usize = 1 << 10;
/// The bytes of an attribute beside its text, and of a request.
const OVERHEAD: usize = 48;
/// How long a request stays, in nanoseconds.
const LIFE: u64 = 3_600_000_000_000;
/// The time after which more clients are noted again, in nanoseconds.
const CALM: u64 = LIFE / 6;
/// The smallest part of the clients: one of 65,536.
const SMALLEST: u64 = (1 << 16) - 1;
/// The attributes that tell clients apart. The first one that a request has counts.
const IDENTITIES: [&str; 3] = ["user", "key", ADDRESS];

/// The requests of the last hour.
#[derive(Debug, Default)]
pub(super) struct Recent {
    hasher: RandomState,
    /// Requests of clients whose hash has one of these bits are left out.
    mask: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Ordered by time.
    requests: VecDeque<Arc<Request>>,
    bytes: usize,
    /// Since when the mask has let in all that are here.
    since: Option<u64>,
}

/// A request.
#[derive(Debug)]
struct Request {
    at: u64,
    cost: u32,
    hash: u64,
    attributes: Vec<(Box<str>, Box<str>)>,
}

/// The requests of some time.
#[derive(Debug)]
pub(super) struct Sample {
    requests: Vec<Arc<Request>>,
    /// Random and secret.
    seed: [u64; 2],
    /// One of so many clients is in it.
    pub(super) one_of: u64,
    /// The time that it covers.
    pub(super) span: Duration,
}

impl Request {
    fn bytes(&self) -> usize {
        let each = self.attributes.iter().map(|(name, value)| OVERHEAD + name.len() + value.len());
        OVERHEAD + each.sum::<usize>()
    }
}

impl Recent {
    /// Notes a request. One that costs nothing asks only what would be.
    pub(super) fn note(&self, attributes: &BTreeMap<String, String>, cost: u32, now: u64) {
        let length: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        let identity = IDENTITIES.iter().find_map(|name| attributes.get(*name));
        // Without a name, each request stands for itself.
        let hash = identity.map_or_else(|| self.hasher.hash_one(now), |value| self.hasher.hash_one(value));
        if cost == 0 || length > LONGEST || hash & self.mask.load(Ordering::Relaxed) != 0 {
            return;
        }
        let boxed = |(name, value): (&String, &String)| (name.as_str().into(), value.as_str().into());
        let request = Request { at: now, cost, hash, attributes: attributes.iter().map(boxed).collect() };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.add(&mut kept, request, now);
    }

    fn add(&self, kept: &mut Kept, request: Request, now: u64) {
        kept.since.get_or_insert(now);
        kept.expire(now);
        let mask = self.mask.load(Ordering::Relaxed);
        let is_calm = kept.since.is_some_and(|since| since.saturating_add(CALM) < now);
        if mask > 0 && is_calm && kept.requests.len() < MOST / 4 && kept.bytes < BYTES / 4 {
            self.mask.store(mask >> 1, Ordering::Relaxed);
            kept.since = Some(now);
        }
        let bytes = request.bytes();
        while kept.requests.len() >= MOST || kept.bytes + bytes > BYTES {
            let mask = self.mask.load(Ordering::Relaxed);
            if mask < SMALLEST {
                let mask = mask << 1 | 1;
                self.mask.store(mask, Ordering::Relaxed);
                kept.requests.retain(|request| request.hash & mask == 0);
                kept.bytes = kept.requests.iter().map(|request| request.bytes()).sum();
            } else if let Some(oldest) = kept.requests.pop_front() {
                kept.bytes -= oldest.bytes();
                kept.since = Some(oldest.at);
            } else {
                break;
            }
        }
        if request.hash & self.mask.load(Ordering::Relaxed) == 0 {
            kept.bytes += bytes;
            kept.requests.push_back(Arc::new(request));
        }
    }

    /// Returns the requests of the last hour.
    pub(super) fn sample(&self, now: u64) -> Sample {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.expire(now);
        let span = now.saturating_sub(kept.since.unwrap_or(now)).min(LIFE);
        Sample {
            requests: kept.requests.iter().cloned().collect(),
            seed: [0, 1].map(|number: u8| self.hasher.hash_one(number)),
            one_of: self.mask.load(Ordering::Relaxed) + 1,
            span: Duration::from_nanos(span),
        }
    }
}

impl Kept {
    fn expire(&mut self, now: u64) {
        while self.requests.front().is_some_and(|oldest| oldest.at.saturating_add(LIFE) < now) {
            self.bytes -= self.requests.pop_front().map_or(0, |oldest| oldest.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::requests::written;

    const SECOND: u64 = 1_000_000_000;

    fn of_user(user: usize) -> BTreeMap<String, String> {
        BTreeMap::from([("user".to_owned(), user.to_string()), ("operation".to_owned(), "a".to_owned())])
    }

    fn replayed(recent: &Recent, keys: &str, now: u64) -> Replayed {
        let rule = written::read("r", &toml::from_str(keys).unwrap(), &["user".to_owned(), "operation".to_owned()]);
        replay(&rule.unwrap(), &recent.sample(now))
    }

    #[test]
    fn a_replay_counts_the_clients_that_a_rule_would_have_refused() {
        let recent = Recent::default();
        // Twelve clients ask once per second for a minute, and 28 others once in 20 seconds.
        for second in 0..60 {
            (0..12).for_each(|user| recent.note(&of_user(user), 1, second * SECOND));
            if second % 20 == 0 {
                (12..40).for_each(|user| recent.note(&of_user(user), 1, second * SECOND));
            }
        }
        recent.note(&of_user(50), 0, 59 * SECOND);
        let window = "algorithm = \"sliding-log\"\nkey = \"user\"\n";
        let found = replayed(&recent, &format!("{window}limits = \"10/m\""), 60 * SECOND);
        assert_eq!((found.clients, found.hit, found.requests, found.refused), (40, 12, 12 * 60 + 28 * 3, 12 * 50));
        assert_eq!((found.worst.len(), found.worst[0].requests, found.worst[0].refused), (10, 60, 50));
        let found = replayed(&recent, &format!("{window}limits = \"2/m\""), 60 * SECOND);
        assert_eq!((found.clients, found.hit), (40, 40));
        let found =
            replayed(&recent, &format!("{window}limits = \"2/m\"\nmatch = {{ operation = \"b\" }}"), 60 * SECOND);
        assert_eq!((found.clients, found.hit), (0, 0));
    }

    #[test]
    fn a_replay_tells_no_key() {
        let recent = Recent::default();
        let request = ["key", "user"].map(|name| (name.to_owned(), "c2VjcmV0".to_owned()));
        recent.note(&BTreeMap::from(request), 1, SECOND);
        let rule =
            written::read("r", &toml::from_str("key = [\"key\"]\nlimits = \"1/m\"").unwrap(), &["key".to_owned()]);
        let name = &replay(&rule.unwrap(), &recent.sample(SECOND)).worst[0].name;
        assert!(name.starts_with("key=") && !name.contains("c2VjcmV0"), "{name}");
    }

    #[test]
    fn requests_stay_for_an_hour() {
        let recent = Recent::default();
        recent.note(&of_user(1), 1, 0);
        recent.note(&of_user(2), 1, 30 * 60 * SECOND);
        assert_eq!(recent.sample(LIFE + SECOND).requests.len(), 1);
        assert_eq!(recent.sample(LIFE + SECOND).span, Duration::from_secs(3_600));
        assert_eq!(recent.sample(2 * LIFE).requests.len(), 0);
    }

    #[test]
    fn a_flood_of_clients_leaves_whole_histories_of_some_of_them_within_the_bounds() {
        let recent = Recent::default();
        for round in 0..4 {
            (0..40_000).for_each(|user| recent.note(&of_user(user), 1, round * SECOND));
        }
        let sample = recent.sample(4 * SECOND);
        assert!(sample.one_of >= 2 && sample.requests.len() <= MOST, "{} {}", sample.one_of, sample.requests.len());
        let bytes: usize = sample.requests.iter().map(|request| request.bytes()).sum();
        assert!(bytes <= BYTES && bytes == recent.kept.lock().unwrap().bytes);
        let found = replayed(&recent, "key = \"user\"\nlimits = \"1/h\"", 4 * SECOND);
        assert_eq!(found.requests, 4 * found.clients as u64);
        assert!(found.clients > 10_000, "{}", found.clients);
        // A single client that asks again and again takes no more than the bounds.
        (0..2 * MOST as u64).for_each(|_| recent.note(&of_user(1), 1, 5 * SECOND));
        assert!(recent.sample(5 * SECOND).requests.len() <= MOST);
    }
}
