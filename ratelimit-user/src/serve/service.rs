//! What all connections share: the limiter in force, the clock and the counts.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use rustix::rand::{GetRandomFlags, getrandom};

use super::{clock::Clock, counts::Counts};
use crate::check::{Limiter, Rule};

/// What all connections share.
pub(super) struct Service {
    limiter: RwLock<Arc<Limiter>>,
    clock: Clock,
    pub(super) counts: Counts,
    is_ending: AtomicBool,
}

impl Service {
    pub(super) fn new(rules: Vec<Rule>) -> anyhow::Result<Self> {
        let mut seed = [0; 16];
        getrandom(&mut seed, GetRandomFlags::empty())?;
        let (first, second) = seed.split_at(8);
        let seed = [first, second].map(|half| half.try_into().map_or(0, u64::from_ne_bytes));
        Ok(Self {
            limiter: RwLock::new(Arc::new(Limiter::new(rules, seed))),
            clock: Clock::start(),
            counts: Counts::default(),
            is_ending: AtomicBool::new(false),
        })
    }

    /// Returns the limiter in force.
    pub(super) fn limiter(&self) -> Arc<Limiter> {
        Arc::clone(&self.limiter.read().unwrap_or_else(PoisonError::into_inner))
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
