//! What all connections share: the limiter in force, the clock and the counts.

use std::{
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use axum::http::HeaderMap;
use ratelimit_client::{
    layer::{Clock, Current},
    wire::HeaderStyle,
};
use ratelimit_limiter::{Decision, Limiter, Record, Rule, Shares};
use rustix::rand::{GetRandomFlags, getrandom};

use super::{
    access::{Caller, Denied, Need, Tokens},
    counts::{ByRule, Counts},
    in_fleet::InFleet,
    question::{Batch, Question, Requests},
    recent::Recent,
    stops::{Sender, Stops},
    usage::Kept,
};

/// What all connections share.
pub(super) struct Service {
    limiter: Current,
    tokens: RwLock<Tokens>,
    clock: Clock,
    pub(super) counts: Counts,
    pub(super) fleet: Arc<InFleet>,
    pub(super) usage: Option<Arc<Kept>>,
    /// For previews of the console. None without it.
    pub(super) recent: Option<Recent>,
    /// A [`HeaderStyle`] as a number.
    style: AtomicU8,
    /// Whether slashes in a row are one in paths of proxies, and parameters are left out.
    merges_paths: AtomicBool,
    stops: Option<Stops>,
    is_ending: AtomicBool,
}

const STYLES: [HeaderStyle; 3] = [HeaderStyle::RateLimit, HeaderStyle::XRateLimit, HeaderStyle::None];

impl Service {
    /// Returns it, and what asks the daemon at the socket `stops` to stop clients.
    pub(super) fn new(
        rules: Vec<Rule>,
        fleet: Arc<InFleet>,
        usage: Option<Arc<Kept>>,
        stops: Option<PathBuf>,
        has_previews: bool,
    ) -> anyhow::Result<(Self, Option<Sender>)> {
        let (stops, sender) = match stops {
            Some(socket) => Some(Stops::new(socket, seed()?)).unzip(),
            None => (None, None),
        };
        let limiter = Limiter::new(rules, seed()?);
        stops.iter().for_each(|stops: &Stops| stops.change(&limiter));
        let clock = Clock::start();
        let service = Self {
            limiter: Current::new(limiter),
            tokens: RwLock::default(),
            clock,
            counts: Counts::default(),
            fleet,
            usage,
            recent: has_previews.then(|| Recent::new(clock.now())),
            style: AtomicU8::new(0),
            merges_paths: AtomicBool::new(true),
            stops,
            is_ending: AtomicBool::new(false),
        };
        Ok((service, sender))
    }

    /// Returns the limiter in force.
    pub(super) fn limiter(&self) -> Arc<Limiter> {
        self.limiter.get()
    }

    /// Decides a request within the bounds, and answers in the words of the caller.
    pub(super) fn decide<T>(&self, question: Question, answer: impl FnOnce(&Decision<'_>) -> T) -> Result<T, String> {
        let Question { attributes, cost, connection, unreadable } = question.within_bounds()?;
        self.counts.count_unreadable(unreadable);
        let (limiter, now) = (self.limiter(), self.now());
        let decision = limiter.check_and_record(&attributes, cost, now, &mut self.record());
        self.counts.count(&decision);
        if let Some(recent) = &self.recent {
            recent.note(&attributes, cost, now);
        }
        if let Some(stops) = &self.stops {
            stops.note(&attributes, connection, decision.stop, now);
        }
        Ok(answer(&decision))
    }

    /// Decides several requests: all of them are allowed, or none is charged.
    pub(super) fn decide_all<T>(&self, batch: Batch, answer: impl FnOnce(&[Decision<'_>]) -> T) -> Result<T, String> {
        let Requests { is_one, all, connections, unreadable } = batch.within_bounds()?;
        self.counts.count_unreadable(unreadable);
        let (limiter, now) = (self.limiter(), self.now());
        let decisions = limiter.check_all_and_record(&all, now, &mut self.record());
        // What a refused batch has charged was given back.
        match decisions.iter().find(|decision| !decision.is_allowed) {
            Some(refused) => self.counts.count(refused),
            None => decisions.iter().for_each(|decision| self.counts.count(decision)),
        }
        if let Some(recent) = &self.recent {
            all.iter().for_each(|(attributes, cost)| recent.note(attributes, *cost, now));
        }
        if let Some(stops) = &self.stops {
            let noted = all.iter().zip(connections).zip(&decisions);
            let noted = noted.map(|(((attributes, _), connection), decision)| (attributes, connection, decision.stop));
            let noted: Vec<_> = noted.collect();
            noted.chunks(if is_one { noted.len().max(1) } else { 1 }).for_each(|parts| stops.note_parts(parts, now));
        }
        Ok(answer(&decisions))
    }

    /// Returns what counts requests by rule, and keeps the usage of clients if anything does.
    fn record(&self) -> impl Record + '_ {
        ByRule(self.usage.as_deref().map(Kept::record))
    }

    /// Returns the time of the limiter.
    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Puts other rules in force. Requests that are being decided see the old ones.
    pub(super) fn change(&self, rules: Vec<Rule>) {
        self.limiter.change(rules, self.now());
        if let Some(stops) = &self.stops {
            stops.change(&self.limiter());
        }
    }

    /// Shares limits with other servers from now on, or no longer.
    pub(super) fn share(&self, shares: Option<Arc<Shares>>) {
        self.limiter.share(shares);
    }

    /// Puts other tokens in force.
    pub(super) fn change_tokens(&self, tokens: Tokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens;
    }

    /// Returns how headers tell what a client has left.
    pub(super) fn style(&self) -> HeaderStyle {
        STYLES.get(usize::from(self.style.load(Ordering::Relaxed))).copied().unwrap_or_default()
    }

    /// Writes headers in another style from now on.
    pub(super) fn change_style(&self, style: HeaderStyle) {
        let number = STYLES.iter().position(|this| *this == style).unwrap_or_default();
        self.style.store(number as u8, Ordering::Relaxed);
    }

    /// Returns whether paths of proxies are merged.
    pub(super) fn merges_paths(&self) -> bool {
        self.merges_paths.load(Ordering::Relaxed)
    }

    /// Merges paths of proxies from now on, or no longer.
    pub(super) fn change_merges_paths(&self, merges_paths: bool) {
        self.merges_paths.store(merges_paths, Ordering::Relaxed);
    }

    /// Returns the caller of a call with these headers, if its token allows this.
    pub(super) fn allow(&self, headers: &HeaderMap, need: Need<'_>) -> Result<Caller, Denied> {
        let allowed = self.tokens.read().unwrap_or_else(PoisonError::into_inner).allow(headers, need);
        allowed.inspect_err(|denied| self.counts.count_denied(denied))
    }

    /// Asks about the tokens in force.
    pub(super) fn of_tokens<T>(&self, ask: impl FnOnce(&Tokens) -> T) -> T {
        ask(&self.tokens.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns all metrics as text for Prometheus.
    pub(super) fn metrics(&self) -> String {
        let limiter = self.limiter();
        let mut page = self.counts.page(&limiter);
        self.fleet.write(&mut page, &limiter);
        if let Some(usage) = &self.usage {
            usage.write(&mut page);
        }
        if let Some(stops) = &self.stops {
            stops.write(&mut page);
        }
        page
    }

    /// Tells callers from now on that the server ends.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server ends.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

/// Returns random numbers that others cannot guess.
fn seed() -> anyhow::Result<[u64; 2]> {
    let mut seed = [0; 16];
    getrandom(&mut seed, GetRandomFlags::empty())?;
    let (first, second) = seed.split_at(8);
    Ok([first, second].map(|half| half.try_into().map_or(0, u64::from_ne_bytes)))
}
