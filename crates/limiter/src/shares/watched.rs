//! One client that several servers limit together.

use ratelimit_common::{
    fleet::{account::Account, share},
    limits::limit::SECOND,
};
use smallvec::SmallVec;

use super::lease::{Lease, Shared};
use crate::limit::Look;

/// Time without a request after which a client without a lease is no longer watched, in nanoseconds.
const IDLE: u64 = 10 * SECOND;

/// One client that several servers limit together.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    /// What all servers call it.
    pub(super) hash: u128,
    /// Time of its last request.
    pub(super) last: u64,
    pub(super) parts: SmallVec<[Part; 1]>,
}

/// One limit of it.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) limit: share::Limit,
    pub(super) account: Account,
    pub(super) lease: Lease,
}

impl Watched {
    pub(super) fn new(hash: u128, limits: &[Shared], now: u64) -> Self {
        let part = |shared: &Shared| Part { limit: shared.limit, account: Account::default(), lease: Lease::default() };
        Self { hash, last: now, parts: limits.iter().map(part).collect() }
    }

    /// Follows the limits of its rule.
    pub(super) fn follow(&mut self, limits: &[Shared], now: u64) {
        let alike = self.parts.iter().map(|part| part.limit).eq(limits.iter().map(|shared| shared.limit));
        if !alike {
            *self = Self::new(self.hash, limits, now);
        }
    }

    /// Asks all leases, and returns the refusal with the longest wait, or how long a queue delays the request.
    pub(super) fn ask(
        &mut self,
        limits: &[Shared],
        mut used: impl FnMut(usize) -> u64,
        now: u64,
        cost: u32,
    ) -> Result<u64, (usize, u64)> {
        let (mut refusal, mut latest) = (None, 0);
        for (number, (part, shared)) in self.parts.iter_mut().zip(limits).enumerate() {
            match part.lease.ask(shared, || used(number), now, cost) {
                Look::Admit { after } => latest = latest.max(after),
                Look::Refuse { wait } if refusal.is_none_or(|(_, longest)| wait > longest) => {
                    refusal = Some((number, wait));
                }
                Look::Refuse { .. } => {}
            }
        }
        refusal.map_or(Ok(latest), Err)
    }

    /// Counts a request. One that is admitted is charged.
    pub(super) fn count(&mut self, limits: &[Shared], now: u64, cost: u32, is_admitted: bool) {
        self.last = now;
        let cost_in_all = f64::from(cost);
        for (part, shared) in self.parts.iter_mut().zip(limits) {
            part.account.add(cost_in_all, if is_admitted { cost_in_all } else { 0.0 });
            if is_admitted {
                part.lease.charge(shared, now, cost);
            }
        }
    }

    /// Takes an admitted request back.
    pub(super) fn give_back(&mut self, limits: &[Shared], now: u64, cost: u32) {
        for (part, shared) in self.parts.iter_mut().zip(limits) {
            part.account.add(-f64::from(cost), -f64::from(cost));
            part.lease.give_back(shared, now, cost);
        }
    }

    /// Returns whether it need not be watched any more.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        let is_over = |part: &Part| !part.account.is_under_way() && !part.lease.is_running(now);
        now.saturating_sub(self.last) >= IDLE && self.parts.iter().all(is_over)
    }

    /// Returns how much of its limits it uses, at most.
    pub(super) fn load(&self) -> f64 {
        let load = |part: &Part| part.account.waiting() / part.limit.burst.max(1.0);
        self.parts.iter().map(load).fold(0.0, f64::max)
    }
}
