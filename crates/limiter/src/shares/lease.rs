//! The lease of one limit: what several servers leave a client of it on this one, until a time.

use ratelimit_common::{
    fleet::{
        lease::{WHOLE, multiplied, multiplier},
        share::{self, Terms},
    },
    limits::limit::SECOND,
    meters::{
        gcra::{Answer, MAX_DEBT, Units, ask_owing, units},
        meter::Meter,
        state::debt,
    },
};

use crate::limit::{Algorithm, Limit, Look, price, whole};

/// A limit as several servers share it: a token bucket, whatever its algorithm is.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// In requests.
    pub(super) limit: share::Limit,
    meter: Meter,
    is_queue: bool,
}

impl Shared {
    /// Returns how a limit is shared, together with the soft one above it. None if no bucket can be so large.
    pub(crate) fn of(limit: &Limit, soft: Option<&Limit>) -> Option<Self> {
        let amount = limit.rate().amount + soft.map_or(0, |soft| soft.rate().amount);
        let burst = limit.most() + soft.map_or(0, Limit::most);
        let meter = Limit::bucket(amount, limit.rate().period, burst).ok()?;
        let rate = amount as f64 * SECOND as f64 / limit.rate().period as f64;
        let is_queue = limit.algorithm() == Algorithm::Queue;
        Some(Self { limit: share::Limit { rate, burst: burst as f64 }, meter, is_queue })
    }
}

/// The lease of one limit. Without a share, it says nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Lease {
    /// Time at which it ends, in nanoseconds.
    end: u64,
    /// Factor of costs.
    multiplier: u64,
    /// See [`ratelimit_common::meters::gcra`].
    state: u64,
    /// Whether the share has fallen since the last request.
    has_fallen: bool,
}

/// Requests that a share must have time to earn before it ends. Otherwise, slow clients would come between two leases.
const EARNED: f64 = 2.0;
/// The longest lease of a slow limit, in seconds.
const LONGEST: f64 = 600.0;

impl Lease {
    /// Grants a share, or ends it.
    pub(super) fn grant(&mut self, share: Option<f64>, limit: &share::Limit, terms: &Terms, now: u64) {
        if self.end <= now {
            // A lease that has ended begins anew.
            self.state = units(now);
        }
        let seconds = |share: f64| (EARNED / (share * limit.rate)).min(LONGEST).max(terms.lease());
        let end = |share| now.saturating_add((seconds(share) * SECOND as f64) as u64);
        let before = self.multiplier;
        (self.multiplier, self.end) = share.map_or((WHOLE, 0), |share| (multiplier(share), end(share)));
        self.has_fallen |= self.multiplier > before;
    }

    /// Returns whether it has not ended.
    pub(super) fn is_running(&self, now: u64) -> bool {
        self.end > now
    }

    /// Asks for so many requests, and charges nothing. `used` is what the client has used of the limit on this server.
    pub(super) fn ask(&mut self, shared: &Shared, used: impl FnOnce() -> u64, now: u64, cost: u32) -> Look {
        if self.end <= now {
            return Look::Admit { after: 0 };
        }
        let (burst, cost) = (shared.meter.burst, self.cost(shared, cost));
        if std::mem::take(&mut self.has_fallen) {
            // A client that has used much of the limit has as little left of its share.
            let used = self.cost(shared, u32::try_from(used()).unwrap_or(u32::MAX)).min(burst);
            self.state = units(now).wrapping_add(debt(self.state, units(now)).max(used));
        }
        let owed = debt(self.state, units(now));
        match ask_owing(owed, units(now), cost, burst, MAX_DEBT) {
            Answer::Admit(_) => Look::Admit { after: if shared.is_queue { whole(owed) } else { 0 } },
            _ => Look::Refuse { wait: whole((owed + cost).saturating_sub(burst)) },
        }
    }

    /// Charges so many requests that it has just admitted.
    pub(super) fn charge(&mut self, shared: &Shared, now: u64, cost: u32) {
        if self.end > now {
            let owed = debt(self.state, units(now)).saturating_add(self.cost(shared, cost)).min(MAX_DEBT);
            self.state = units(now).wrapping_add(owed);
        }
    }

    /// Takes a charge back.
    pub(super) fn give_back(&mut self, shared: &Shared, now: u64, cost: u32) {
        if self.end > now {
            let owed = debt(self.state, units(now)).saturating_sub(self.cost(shared, cost));
            self.state = units(now).wrapping_add(owed);
        }
    }

    fn cost(&self, shared: &Shared, cost: u32) -> Units {
        multiplied(price(&shared.meter, cost), self.multiplier)
    }
}
