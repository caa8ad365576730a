//! The limiters that are compared, each with one limit for each key.

use std::{
    hint::black_box,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use ratelimit::check::{self, Algorithm, Limit, Rate, Rule};

use crate::state::State;

/// Work that is timed. It returns how many requests were allowed.
pub(super) type Work<'a> = Box<dyn FnOnce() -> usize + 'a>;

/// A limiter that decides by text keys.
pub(super) trait Limiter: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Returns the most decisions of a sample.
    fn most(&self) -> usize;

    /// Prepares what a caller has at hand before it asks. The work asks once for each key.
    fn prepare<'a>(&'a self, keys: &'a [String]) -> Work<'a>;
}

/// Returns all of them.
pub(super) fn all(state: State, keys: usize) -> Result<Vec<Box<dyn Limiter>>> {
    let ours: Box<dyn Limiter> = Box::new(Ours::new(rate(state), Algorithm::TokenBucket, 2 * keys)?);
    #[cfg(feature = "peers")]
    let peers = super::peers::all(state, keys)?;
    #[cfg(not(feature = "peers"))]
    let peers: [Box<dyn Limiter>; 0] = [];
    Ok([ours].into_iter().chain(peers).collect())
}

const SECOND: u64 = 1_000_000_000;
/// Requests per second of a limit that is never reached.
pub(super) const NEVER_REACHED: u32 = 1_000_000;

fn rate(state: State) -> Rate {
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
