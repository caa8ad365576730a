//! The limiter in force.

use std::sync::{Arc, PoisonError, RwLock};

use crate::check::{Limiter, Rule};

/// The limiter in force, which other rules can replace while requests are decided.
#[derive(Debug)]
pub struct Current(RwLock<Arc<Limiter>>);

impl Current {
    /// Puts a limiter in force.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self(RwLock::new(Arc::new(limiter)))
    }

    /// Returns the limiter in force.
    #[must_use]
    pub fn get(&self) -> Arc<Limiter> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other rules in force by [`Limiter::with_rules`]. A request that is being decided still sees the old ones.
    pub fn change(&self, rules: impl IntoIterator<Item = Rule>, now: u64) {
        let changed = self.get().with_rules(rules, now);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(changed);
    }
}
