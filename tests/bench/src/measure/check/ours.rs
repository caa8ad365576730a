//! The product's limiter as a library.

use std::{
    hint::black_box,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use ratelimit_limiter::{self as check, Algorithm, Limit, Rate, Rule};

use super::limiter::{Limiter, NEVER_REACHED, Work};
use crate::state::State;

const SECOND: u64 = 1_000_000_000;
/// Returns the rate of a limit in this state.
pub(super) fn rate(state: State) -> Rate {
    match state {
        State::Over => Rate { amount: 1, period: 3_600 * SECOND },
        State::Passing | State::Held => Rate { amount: NEVER_REACHED.into(), period: SECOND },
    }
}

/// The name of the product's limiter.
pub(super) const OURS: &str = "ratelimit";

/// The product's limiter, with a rule by `user`.
pub(super) struct Ours {
    limiter: check::Limiter,
    start: Instant,
    epoch: u64,
}

impl Ours {
    /// Creates the limiter with at most this many clients.
    pub(super) fn new(rate: Rate, algorithm: Algorithm, clients: usize) -> Result<Self> {
        let rule = Rule::new("bench", [Limit::new(rate, None, algorithm)?])?.by(["user"]).with_clients(clients);
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        Ok(Self { limiter: check::Limiter::new([rule], [1, 2]), start: Instant::now(), epoch })
    }

    /// Returns the time as the server does.
    fn now(&self) -> u64 {
        self.epoch + self.start.elapsed().as_nanos() as u64
    }

    /// Decides a request of a user.
    pub(super) fn is_allowed(&self, user: &str) -> bool {
        black_box(self.limiter.check(&[("user", user)], 1, self.now())).is_allowed
    }
}

impl Limiter for Ours {
    fn name(&self) -> &'static str {
        OURS
    }

    fn most(&self) -> usize {
        usize::MAX
    }

    fn prepare<'a>(&'a self, keys: &'a [String]) -> Work<'a> {
        Box::new(|| keys.iter().filter(|key| self.is_allowed(key)).count())
    }
}
