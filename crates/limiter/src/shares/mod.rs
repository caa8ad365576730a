//! Limits that several servers share: what clients are offered here, and the leases that an engine leaves them.

mod lease;
mod watched;

use std::{
    hash::BuildHasherDefault,
    sync::atomic::{AtomicU64, Ordering},
};

use ratelimit_common::{
    fleet::share::{self, Answer, Report, Terms},
    limits::limit::SECOND,
};
use scc::{HashCache, hash_cache::Entry};

pub(super) use self::lease::Shared;
use self::watched::Watched;
use super::client::{Client, Hashed, Seed};

/// Clients that are watched: a power of two.
const MOST: usize = 16_384;

/// A client under a rule.
pub(super) type Place = (u64, Client);

/// What several servers share of the limits of a [`Limiter`](super::Limiter). It does no I/O: the caller carries
/// [reports](Self::reports) to an engine, and its answers back.
///
/// Leases can only slow a client. Without answers, they end after four periods, or once a slow limit has earned two
/// requests, and then the limits of this server stand.
pub struct Shares {
    clients: HashCache<Place, Watched, BuildHasherDefault<Hashed>>,
    pub(super) seed: Seed,
    terms: Terms,
    /// Clients that had to go for others.
    lost: AtomicU64,
}

/// A report that is due, about one limit of one client.
#[derive(Debug, Clone)]
pub struct Due {
    place: Place,
    number: usize,
    /// What all servers call the client under its rule.
    pub client: u128,
    /// The limit, in requests.
    pub limit: share::Limit,
    /// What to report.
    pub report: Report,
}

impl Due {
    /// Returns which limit of the rule it is about.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    pub(super) fn rule(&self) -> u64 {
        self.place.0
    }
}

/// What the leases of a client say about a request.
pub(super) type Said = Result<u64, (usize, u64)>;

impl Shares {
    /// Creates them. All servers that share limits have the same seed, which nobody else should know, and the same terms.
    #[must_use]
    pub fn new([first, second]: [u64; 2], terms: Terms) -> Self {
        let clients = HashCache::with_capacity_and_hasher(MOST, MOST, BuildHasherDefault::default());
        Self { clients, seed: Seed(first, second), terms, lost: AtomicU64::new(0) }
    }

    /// Returns the terms.
    #[must_use]
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Returns how many clients are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Returns whether no client is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Returns how many clients had to go for others although they were busy.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Decides and counts a request of a client that its own limits admit or refuse. `hash` is what all servers call it.
    pub(super) fn decide(
        &self,
        place: Place,
        limits: &[Shared],
        request: Request<'_>,
        hash: impl FnOnce() -> Option<Client>,
    ) -> Said {
        let Request { cost, now, is_admitted, charges, used } = request;
        let decide = |watched: &mut Watched| {
            watched.follow(limits, now);
            let said = if is_admitted { watched.ask(limits, used, now, cost.max(1)) } else { Ok(0) };
            if charges {
                watched.count(limits, now, cost, is_admitted && said.is_ok());
            }
            said
        };
        // Only this keeps in mind that the client was not idle.
        if let Some(mut watched) = self.clients.get_sync(&place) {
            return decide(watched.get_mut());
        }
        let Some(hash) = hash() else { return Ok(0) };
        match self.clients.entry_sync(place) {
            Entry::Occupied(mut watched) => decide(watched.get_mut()),
            Entry::Vacant(free) => {
                let (evicted, mut watched) = free.put_entry(Watched::new(hash, limits, now));
                if evicted.is_some_and(|(_, watched)| !watched.is_idle(now)) {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
                decide(watched.get_mut())
            }
        }
    }

    /// Takes an admitted request back.
    pub(super) fn give_back(&self, place: Place, limits: &[Shared], now: u64, cost: u32) {
        if let Some(mut watched) = self.clients.get_sync(&place) {
            watched.get_mut().give_back(limits, now, cost);
        }
    }

    /// Returns the reports to the engine that are due. Call it once in each period. They are about `most` clients, and
    /// about `most_new` that the engine does not know. `now` is the time of the limiter.
    pub fn reports(&self, weight: f64, [most, most_new]: [usize; 2], now: u64) -> Vec<Due> {
        let (mut known, mut new) = (Vec::new(), Vec::new());
        self.clients.retain_sync(|place, watched| {
            let load = watched.load();
            if load > 0.0 {
                let is_known = watched.parts.iter().any(|part| part.account.is_known());
                if is_known { &mut known } else { &mut new }.push((load, *place));
            }
            !watched.is_idle(now)
        });
        // An engine remembers each client for a while. Many that ask little do not keep it from those that ask much.
        for clients in [&mut known, &mut new] {
            clients.sort_unstable_by(|(one, _), (other, _)| other.total_cmp(one));
        }
        let chosen = new.len().min(most_new);
        let (first, last) = new.split_at(chosen);
        let mut due = Vec::new();
        for (number, (_, place)) in known.iter().chain(first).chain(last).enumerate() {
            let Some(mut watched) = self.clients.get_sync(place) else { continue };
            if number < most.min(known.len() + chosen) {
                self.report(*place, watched.get_mut(), weight, now, &mut due);
            } else {
                watched.get_mut().parts.iter_mut().for_each(|part| part.account.skip(&self.terms, seconds(now)));
            }
        }
        due
    }

    fn report(&self, place: Place, watched: &mut Watched, weight: f64, now: u64, due: &mut Vec<Due>) {
        let client = watched.hash;
        for (number, part) in watched.parts.iter_mut().enumerate() {
            if let Some(report) = part.account.report(&part.limit, &self.terms, weight, false, seconds(now)) {
                due.push(Due { place, number, client, limit: part.limit, report });
            }
        }
    }

    /// Takes the answer of the engine to a report, or that there is none.
    pub fn take(&self, due: &Due, answer: Option<&Answer>, now: u64) {
        let Some(mut watched) = self.clients.get_sync(&due.place) else { return };
        let Some(part) = watched.get_mut().parts.get_mut(due.number).filter(|part| part.account.is_under_way()) else {
            return;
        };
        match answer {
            Some(answer) => {
                part.account.take(answer);
                part.lease.grant(answer.share, &part.limit, &self.terms, now);
            }
            None => part.account.fail(),
        }
    }

    /// Counts a period in which nothing can be reported.
    pub fn skip(&self, now: u64) {
        self.clients.retain_sync(|_, watched| {
            watched.parts.iter_mut().for_each(|part| part.account.skip(&self.terms, seconds(now)));
            !watched.is_idle(now)
        });
    }
}

/// A request as the leases see it.
pub(super) struct Request<'a> {
    pub(super) cost: u32,
    pub(super) now: u64,
    /// Whether the client's own limits admit it.
    pub(super) is_admitted: bool,
    /// Whether it is charged if it is admitted.
    pub(super) charges: bool,
    /// What the client has used of a limit on this server.
    pub(super) used: &'a mut dyn FnMut(usize) -> u64,
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / SECOND as f64
}
