//! Other limiters as libraries.

use std::{collections::HashMap, hint::black_box, num::NonZeroU32};

use anyhow::{Context as _, Result};
use governor::{DefaultKeyedRateLimiter, Quota};
use limitador::limit::{Context, Expression, Limit, Namespace};

use super::limiter::{Limiter, NEVER_REACHED, Work};
use crate::state::State;

/// Names of the limiters.
pub(super) const GOVERNOR: &str = "governor";
pub(super) const LIMITADOR: &str = "limitador";

/// Returns all of them.
pub(super) fn all(state: State, keys: usize) -> Result<Vec<Box<dyn Limiter>>> {
    Ok(vec![governor(state)?, limitador(state, keys)?])
}

/// Returns `governor` with its default table (`dashmap`) and clock.
pub(super) fn governor(state: State) -> Result<Box<dyn Limiter>> {
    let quota = match state {
        State::Over => Quota::per_hour(NonZeroU32::MIN),
        State::Passing | State::Held => Quota::per_second(NonZeroU32::new(NEVER_REACHED).context("no rate")?),
    };
    Ok(Box::new(Governor(DefaultKeyedRateLimiter::dashmap(quota))))
}

/// Returns `limitador` in memory, with room for twice as many keys.
pub(super) fn limitador(state: State, keys: usize) -> Result<Box<dyn Limiter>> {
    let (most, seconds) = match state {
        State::Over => (1, 3_600),
        State::Passing | State::Held => (NEVER_REACHED.into(), 1),
    };
    let namespace = Namespace::from("bench");
    let user = Expression::parse("user")?;
    let limiter = limitador::RateLimiter::new(2 * keys as u64);
    limiter.add_limit(Limit::new(namespace.clone(), most, seconds, [], [user]));
    Ok(Box::new(Limitador { limiter, namespace }))
}

struct Governor(DefaultKeyedRateLimiter<String>);

impl Limiter for Governor {
    fn name(&self) -> &'static str {
        GOVERNOR
    }

    fn most(&self) -> usize {
        usize::MAX
    }

    fn prepare<'a>(&'a self, keys: &'a [String]) -> Work<'a> {
        Box::new(|| keys.iter().filter(|key| black_box(self.0.check_key(key)).is_ok()).count())
    }
}

struct Limitador {
    limiter: limitador::RateLimiter,
    namespace: Namespace,
}

impl Limiter for Limitador {
    fn name(&self) -> &'static str {
        LIMITADOR
    }

    /// A context takes several kilobytes.
    fn most(&self) -> usize {
        20_000
    }

    fn prepare<'a>(&'a self, keys: &'a [String]) -> Work<'a> {
        let context = |key: &String| Context::from(HashMap::from([("user".to_owned(), key.clone())]));
        let contexts: Vec<_> = keys.iter().map(context).collect();
        Box::new(move || {
            let decide = |context| self.limiter.check_rate_limited_and_update(&self.namespace, context, 1);
            // An error is no decision, and the caller counts those that were allowed.
            contexts.iter().filter(|context| black_box(decide(context)).is_ok_and(|result| !result.limited)).count()
        })
    }
}
