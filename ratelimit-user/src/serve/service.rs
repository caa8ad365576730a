//! What all connections share: the limiter in force, the clock and the counts.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use rustix::rand::{GetRandomFlags, getrandom};

use super::{
    clock::Clock,
    counts::Counts,
    question::{Batch, Question},
    usage::Kept,
};
use crate::check::{Decision, Limiter, Record, Rule};

/// What all connections share.
pub(super) struct Service {
    limiter: RwLock<Arc<Limiter>>,
    clock: Clock,
    pub(super) counts: Counts,
    pub(super) usage: Option<Arc<Kept>>,
    is_ending: AtomicBool,
}

impl Service {
    pub(super) fn new(rules: Vec<Rule>, usage: Option<Arc<Kept>>) -> anyhow::Result<Self> {
        let mut seed = [0; 16];
        getrandom(&mut seed, GetRandomFlags::empty())?;
        let (first, second) = seed.split_at(8);
        let seed = [first, second].map(|half| half.try_into().map_or(0, u64::from_ne_bytes));
        Ok(Self {
            limiter: RwLock::new(Arc::new(Limiter::new(rules, seed))),
            clock: Clock::start(),
            counts: Counts::default(),
            usage,
            is_ending: AtomicBool::new(false),
        })
    }

    /// Returns the limiter in force.
    pub(super) fn limiter(&self) -> Arc<Limiter> {
        Arc::clone(&self.limiter.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Decides a request within the bounds, and answers in the words of the caller.
    pub(super) fn decide<T>(&self, question: Question, answer: impl FnOnce(&Decision<'_>) -> T) -> Result<T, String> {
        let Question { attributes, cost } = question.within_bounds()?;
        let limiter = self.limiter();
        let decision = limiter.check_and_record(&attributes, cost, self.now(), &mut self.record());
        self.counts.count(&decision);
        Ok(answer(&decision))
    }

    /// Decides several requests: all of them are allowed, or none is charged.
    pub(super) fn decide_all<T>(&self, batch: Batch, answer: impl FnOnce(&[Decision<'_>]) -> T) -> Result<T, String> {
        let requests = batch.within_bounds()?;
        let limiter = self.limiter();
        let decisions = limiter.check_all_and_record(&requests, self.now(), &mut self.record());
        // What a refused batch has charged was given back.
        match decisions.last() {
            Some(last) if !last.is_allowed => self.counts.count(last),
            _ => decisions.iter().for_each(|decision| self.counts.count(decision)),
        }
        Ok(answer(&decisions))
    }

    /// Returns what keeps the usage of clients, if anything does.
    fn record(&self) -> Option<impl Record + '_> {
        self.usage.as_deref().map(Kept::record)
    }

    /// Returns the metrics as text for Prometheus.
    pub(super) fn metrics(&self) -> String {
        let mut page = self.counts.page(&self.limiter());
        if let Some(usage) = &self.usage {
            usage.write(&mut page);
        }
        page
    }

    /// Returns the time of the limiter.
    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Puts other rules in force. Requests that are being decided see the old ones.
    pub(super) fn change(&self, rules: Vec<Rule>) {
        let changed = self.limiter().with_rules(rules, self.now());
        *self.limiter.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(changed);
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
