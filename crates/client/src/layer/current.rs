//! The limiter in force.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ratelimit_limiter::{Limiter, Rule, Shares};

/// The limiter in force, which other rules can replace while requests are decided.
#[derive(Debug)]
pub struct Current {
    limiter: RwLock<Arc<Limiter>>,
    /// Changes take turns.
    turn: Mutex<()>,
}

impl Current {
    /// Puts a limiter in force.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self { limiter: RwLock::new(Arc::new(limiter)), turn: Mutex::default() }
    }

    /// Returns the limiter in force.
    #[must_use]
    pub fn get(&self) -> Arc<Limiter> {
        Arc::clone(&self.limiter.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other rules in force by [`Limiter::with_rules`]. A request that is being decided still sees the old ones.
    pub fn change(&self, rules: impl IntoIterator<Item = Rule>, now: u64) {
        self.replace(|limiter| limiter.with_rules(rules, now));
    }

    /// Shares limits with other servers from now on, or no longer, by [`Limiter::with_shares`].
    pub fn share(&self, shares: Option<Arc<Shares>>) {
        self.replace(|limiter| limiter.with_shares(shares));
    }

    fn replace(&self, change: impl FnOnce(&Limiter) -> Limiter) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = Arc::new(change(&self.get()));
        *self.limiter.write().unwrap_or_else(PoisonError::into_inner) = changed;
    }
}
