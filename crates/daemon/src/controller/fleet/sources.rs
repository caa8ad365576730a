//! The sources that this host reports: which ones, when, and with which lease.

use std::path::Path;

use ratelimit_common::{
    fleet::{
        lease::EVERY_SOURCE,
        share::{Answer, Terms},
    },
    identity::source::Source,
};
use ratelimit_dataplane::{Error, readings::busy::Busy};
use ratelimit_fleet::table::Limits;
use ratelimit_protocol::fleet::SharedSource;

use super::{
    by_hash::ByHash,
    divided,
    measure::Measure,
    messages::Messages,
    traffic::{Rules, Traffic},
    watched::{Next, Watched},
};

/// The most sources that are reported.
const MOST: usize = 10_000;
/// How much busier a source must be to take the place of another one.
const BUSIER: f64 = 2.0;
/// Sources whose rules are looked up again in one look.
const LOOKED_UP: usize = 2_000;
/// Looks after which all rules are looked up again.
const AGAIN: u64 = 10;
/// Sources that one look may begin to watch.
const FOUND: usize = 2_000;

/// The sources that this host reports.
#[derive(Default)]
pub(super) struct Sources {
    traffic: Option<Traffic>,
    busy: Busy,
    watched: ByHash<Watched>,
    /// Sources whose rules may have changed.
    stale: Vec<u64>,
    /// Whether rules have changed since these were collected.
    has_new_rules: bool,
    looks: u64,
    /// The part of a burst that each host gives, if bursts are divided.
    divided: Option<f64>,
}

/// The watched sources from the calmest on. They are sorted once, when the first is needed.
#[derive(Default)]
struct Calmest(Option<Vec<(f64, u64)>>);

impl Calmest {
    /// Returns load and hash of the next one.
    fn next(&mut self, watched: &ByHash<Watched>, terms: &Terms, now: u64) -> Option<(f64, u64)> {
        let sorted = self.0.get_or_insert_with(|| {
            let loads = watched.iter().map(|(hash, watched)| (watched.load(terms, now), *hash));
            let mut sorted: Vec<_> = loads.collect();
            // The calmest is last.
            sorted.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
            sorted
        });
        sorted.pop()
    }
}

/// How a host reports.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) terms: Terms,
    pub(super) weight: f64,
    /// Whether the engine answers.
    pub(super) is_up: bool,
    /// The part of a burst that each host gives, if bursts are divided.
    pub(super) divided: Option<f64>,
    /// The share of a source without an answer of the engine.
    pub(super) next: Next,
}

impl Sources {
    /// Follows the instance, its rules and its busy sources. `hosts` is the number of hosts.
    pub(super) fn look(
        &mut self,
        pins: &Path,
        limits: Limits,
        hosts: usize,
        terms: &Terms,
        now: u64,
    ) -> Result<(), Error> {
        match self.traffic.as_mut().map(|traffic| traffic.renew(pins)) {
            Some(Ok(Rules::Same)) => {}
            Some(Ok(Rules::Changed)) => self.has_new_rules = true,
            // The maps are no longer those of the instance.
            Some(Ok(Rules::OfOtherMaps) | Err(_)) => {
                self.end();
                self.traffic = None;
            }
            None => {}
        }
        if self.traffic.is_none() {
            self.traffic = Traffic::open(pins, limits, now)?;
        }
        // A rule that ends changes no rule of the others.
        self.looks += 1;
        // All sources have their turn, also if rules change at each look.
        if self.stale.is_empty() && (self.has_new_rules || self.looks.is_multiple_of(AGAIN)) {
            self.has_new_rules = false;
            self.stale = self.watched.keys().copied().collect();
        }
        for _ in 0..LOOKED_UP {
            let Some(hash) = self.stale.last().copied() else { break };
            self.follow(hash)?;
            self.stale.pop();
        }
        let Some(traffic) = &self.traffic else { return Ok(()) };
        let mut found = Vec::new();
        traffic.look(&mut self.busy, |seen| {
            if seen.rate > 0.0 && !self.watched.contains_key(&seen.hash) {
                found.push(seen);
            }
        })?;
        found.sort_unstable_by(|a, b| b.rate.total_cmp(&a.rate));
        // Two or more hosts that see less of a source each do not exceed its limit.
        let least = 0.5 / hosts.max(2) as f64;
        let mut calmest = Calmest::default();
        for seen in found.into_iter().take(FOUND) {
            self.watch(seen.source, seen.hash, Some((seen.rate, least)), &mut calmest, terms, now);
        }
        Ok(())
    }

    /// Follows the rule of a source that is watched.
    fn follow(&mut self, hash: u64) -> Result<(), Error> {
        let (Some(traffic), Some(watched)) = (&self.traffic, self.watched.get_mut(&hash)) else { return Ok(()) };
        let rule = traffic.rule(&watched.source)?;
        if rule == Some(watched.rule) {
            return Ok(());
        }
        if let Some(rule) = rule
            && let Some(measure) = traffic.measure(&watched.source, rule)?
        {
            watched.change(rule, measure);
        } else {
            traffic.leases.end(hash);
            self.watched.remove(&hash);
        }
        Ok(())
    }

    /// Watches a source, if hosts share its limit. `busy` is its rate, and the least part of the limit that matters.
    /// Without it, a limit has refused the source.
    fn watch(
        &mut self,
        source: Source,
        hash: u64,
        busy: Option<(f64, f64)>,
        calmest: &mut Calmest,
        terms: &Terms,
        now: u64,
    ) {
        let Some(traffic) = self.traffic.as_ref().filter(|_| !self.watched.contains_key(&hash)) else { return };
        let Ok(Some(rule)) = traffic.rule(&source) else { return };
        let Ok(Some(measure)) = traffic.measure(&source, rule) else { return };
        let load = busy.map_or(1.0, |(rate, _)| rate / measure.limit.rate);
        if busy.is_some_and(|(_, least)| load < least) {
            return;
        }
        if self.watched.len() >= MOST {
            match calmest.next(&self.watched, terms, now) {
                Some((least, calm)) if load > BUSIER * least => {
                    traffic.leases.end(calm);
                    self.watched.remove(&calm);
                }
                _ => return,
            }
        }
        // A place that the source still has from before counts from 0 again.
        traffic.leases.end(hash);
        let spent = busy.is_none().then(|| self.spent(traffic, &source, &measure));
        let mut watched = Watched::new(source, hash, (rule, measure), spent, now);
        let grant = watched.renew(Next::Whole, terms, now);
        // Without a place, nothing is counted.
        if grant.is_some_and(|grant| traffic.leases.grant(&grant, now)) {
            self.watched.insert(hash, watched);
        }
    }

    /// Returns what a source has spent that a limit refuses: its burst. If bursts are divided, it was its part and what its
    /// bucket counts, unless that is more.
    fn spent(&self, traffic: &Traffic, source: &Source, measure: &Measure) -> f64 {
        let burst = measure.limit.burst;
        match self.divided {
            Some(part) => burst.min(burst * part + traffic.admitted(source, measure)),
            None => burst,
        }
    }

    /// Counts all sources, renews their places, and adds the reports that are due.
    pub(super) fn period(&mut self, how: &How, now: u64, messages: &mut Messages) {
        let Some(traffic) = &self.traffic else { return };
        if let Some(part) = how.divided.filter(|_| how.is_up) {
            divided::tell(&traffic.leases, part, &how.terms, now);
        }
        self.watched.retain(|hash, watched| {
            watched.read(traffic.leases.get(*hash), now);
            if watched.is_idle(now) {
                traffic.leases.end(*hash);
                return false;
            }
            if !how.is_up {
                watched.skip(&how.terms, now);
            } else if let Some(report) = watched.report(&how.terms, how.weight, false, now) {
                messages.push(*hash, watched, report);
            }
            let grant = watched.renew(how.next, &how.terms, now);
            grant.is_none_or(|grant| traffic.leases.grant(&grant, now))
        });
    }

    /// Adds reports of sources that a limit has begun to refuse.
    pub(super) fn urgent(&mut self, how: &How, now: u64, messages: &mut Messages) {
        self.divided = how.divided;
        let refused = self.traffic.as_mut().map(Traffic::refused).unwrap_or_default();
        let mut calmest = Calmest::default();
        for (source, hash) in refused {
            self.watch(source, hash, None, &mut calmest, &how.terms, now);
            let Some(watched) = self.watched.get_mut(&hash).filter(|_| how.is_up) else { continue };
            if let Some(traffic) = &self.traffic {
                watched.read(traffic.leases.get(hash), now);
            }
            if let Some(report) = watched.report(&how.terms, how.weight, true, now) {
                messages.push(hash, watched, report);
            }
        }
    }

    /// Grants what the engine has answered to reports of these sources.
    pub(super) fn answer(&mut self, hashes: &[u64], answers: &[Option<Answer>], terms: &Terms, now: u64) {
        let Some(traffic) = &self.traffic else { return };
        for (hash, answer) in hashes.iter().zip(answers) {
            match (self.watched.get_mut(hash), answer) {
                (Some(watched), Some(answer)) => {
                    if !traffic.leases.grant(&watched.take(answer, terms, now), now) {
                        self.watched.remove(hash);
                    }
                }
                (Some(watched), None) => watched.fail(),
                (None, _) => {}
            }
        }
    }

    /// Ends all leases.
    pub(super) fn end(&mut self) {
        if let Some(traffic) = &self.traffic {
            self.watched.keys().chain(&[EVERY_SOURCE]).for_each(|hash| traffic.leases.end(*hash));
        }
        self.watched.clear();
    }

    /// Returns the limit of sources without a rule, in words.
    pub(super) fn default_limit(&self) -> String {
        self.traffic.as_ref().map(Traffic::default_limit).unwrap_or_default()
    }

    /// Returns how many sources are watched, how many of them have a share, and the `most` busiest ones.
    pub(super) fn status(&self, most: usize, terms: &Terms, now: u64) -> (usize, usize, Vec<SharedSource>) {
        let shared = self.watched.values().filter(|watched| watched.share().is_some()).count();
        let Some(traffic) = &self.traffic else { return (0, 0, Vec::new()) };
        let mut all: Vec<_> = self.watched.values().map(|watched| (watched.load(terms, now), watched)).collect();
        let from_busiest = |a: &(f64, &Watched), b: &(f64, &Watched)| b.0.total_cmp(&a.0);
        if all.len() > most {
            all.select_nth_unstable_by(most, from_busiest);
            all.truncate(most);
        }
        all.sort_unstable_by(from_busiest);
        let row = |(_, watched): &(f64, &Watched)| {
            let [source, service] = traffic.name(&watched.source);
            SharedSource {
                source,
                service,
                limit_per_second: watched.measure.limit.rate,
                offered_per_second: watched.offered_per_second(terms, now),
                share: watched.share(),
            }
        };
        (self.watched.len(), shared, all.iter().map(row).collect())
    }
}
