//! What the rules do with the packets of a session, and when a change makes that worse.

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::{ALLOW, BAN, Ban, DENY, LISTED, Policy, SHADOW},
};
use ratelimit_dataplane::rules::spec::RuleSpec;

use crate::limit::write;

/// The least that packets need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Least {
    /// Packets per second.
    packets: f64,
    /// Bytes per second.
    bytes: f64,
    /// Packets at once.
    burst: u64,
}

impl Least {
    /// Returns whether it needs more packets per second than this.
    pub fn is_above(&self, packets: f64) -> bool {
        packets < self.packets
    }
}

/// What the packets of an open session need. Work at a terminal does not reach this.
pub const OPEN: Least = Least { packets: 100.0, bytes: 100_000.0, burst: 10 };

/// What the packets need that open another session: one of them per second.
pub const NEW: Least = Least { packets: 1.0, bytes: 100.0, burst: 1 };

/// What the rules do with some packets of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub spec: RuleSpec,
    /// Whether this has no end.
    pub is_lasting: bool,
}

impl Standing {
    /// Every packet passes, as without a rule, or in shadow.
    pub fn unlimited() -> Self {
        Self { spec: RuleSpec::from(Policy::UNLIMITED), is_lasting: true }
    }

    pub fn is_denied(&self) -> bool {
        matches!(self.spec.policy.kind, DENY | BAN | LISTED)
    }

    pub fn is_listed(&self) -> bool {
        self.spec.policy.kind == LISTED
    }

    pub fn is_allowed(&self) -> bool {
        self.spec.policy.kind == ALLOW
    }

    /// Returns whether packets that need `least` are worse off than `before`: denied, no longer allowed without an end,
    /// limited so that they may be refused, or exposed to a ban.
    pub fn is_worse(&self, before: &Self, least: &Least) -> bool {
        if self.is_denied() || before.is_denied() {
            return !before.is_denied();
        }
        if self.is_allowed() || before.is_allowed() {
            return before.is_allowed() && !(self.is_allowed() && (self.is_lasting || !before.is_lasting));
        }
        let (before, after) = (Bounds::of(&before.spec), Bounds::of(&self.spec));
        let is_narrow = after.packets < least.packets.min(before.packets)
            || after.bytes < least.bytes.min(before.bytes)
            || after.burst < least.burst.min(before.burst);
        is_narrow || after.bans_more_than(&before)
    }

    /// Returns whether the limit is so low that packets that need `least` may be refused.
    pub fn is_narrow(&self, least: &Least) -> bool {
        self.is_worse(&Self::unlimited(), least)
    }

    /// Returns it in words, for a sentence about what would happen.
    pub fn fate(&self) -> String {
        match self.spec.policy.kind {
            DENY | BAN | LISTED => "denied".to_owned(),
            ALLOW => "allowed only for a time".to_owned(),
            _ if self.spec == RuleSpec::from(Policy::UNLIMITED) => "no longer allowed".to_owned(),
            _ => format!("limited to {}", write::limit(&self.spec)),
        }
    }
}

/// The narrowest limits of a spec, its parents included.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Packets per second. Infinite without a limit.
    packets: f64,
    /// Bytes per second. Infinite without a limit.
    bytes: f64,
    /// Packets at once.
    burst: u64,
    ban: Ban,
}

impl Bounds {
    const NONE: Self = Self {
        packets: f64::INFINITY,
        bytes: f64::INFINITY,
        burst: u64::MAX,
        ban: Ban { time: 0, most: 0, after: 0, reserved: 0 },
    };

    fn of(spec: &RuleSpec) -> Self {
        // Its packets pass in any case, and it bans no source.
        if spec.policy.over_limit == SHADOW {
            return Self::NONE;
        }
        let all = spec.parents.iter().map(|parent| &parent.policy).chain([&spec.policy]);
        all.fold(Self { ban: spec.policy.ban, ..Self::NONE }, Self::within)
    }

    /// Returns the narrower of these bounds and a policy's.
    fn within(self, policy: &Policy) -> Self {
        let Limit { packets, second_packets, bytes, burst, .. } = Limit::of(policy);
        let rate = |rate: Option<Rate>| {
            rate.map_or(f64::INFINITY, |rate| rate.amount as f64 * SECOND as f64 / rate.period as f64)
        };
        Self {
            packets: self.packets.min(rate(packets)).min(rate(second_packets)),
            bytes: self.bytes.min(rate(bytes)),
            burst: self.burst.min(burst.unwrap_or(u64::MAX)),
            ..self
        }
    }

    /// Returns whether it bans sources that `before` does not ban, or bans them for longer.
    fn bans_more_than(&self, before: &Self) -> bool {
        let (ban, was) = (self.ban, before.ban);
        let is_longer = was.time == 0 || ban.time > was.time || ban.most > was.most || ban.after < was.after;
        let is_narrower = self.packets < before.packets || self.bytes < before.bytes || self.burst < before.burst;
        ban.time != 0 && (is_longer || is_narrower)
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::policy::DROP;

    use super::*;
    use ratelimit_dataplane::rules::spec::{ParentLimit, Scope};

    fn limit(packets: u64, period: u64) -> Policy {
        let packets = Some(Rate { amount: packets, period: period * SECOND });
        Limit { packets, ..Limit::default() }.policy().unwrap()
    }

    fn with_burst(packets: u64, burst: u64) -> Policy {
        let packets = Some(Rate { amount: packets, period: SECOND });
        Limit { packets, burst: Some(burst), ..Limit::default() }.policy().unwrap()
    }

    fn bytes(per_second: u64) -> Policy {
        let bytes = Some(Rate { amount: per_second, period: SECOND });
        Limit { bytes, ..Limit::default() }.policy().unwrap()
    }

    fn banning(packets: u64, seconds: u64) -> Policy {
        let ban = Ban { time: seconds * SECOND, most: seconds * SECOND, after: 1, reserved: 0 };
        Policy { ban, over_limit: DROP, ..limit(packets, 1) }
    }

    fn is_worse(before: Policy, after: Policy, least: &Least) -> bool {
        let standing = |policy: Policy| Standing { spec: policy.into(), is_lasting: true };
        standing(after).is_worse(&standing(before), least)
    }

    #[test]
    fn a_limit_below_the_need_of_a_session_is_worse_where_there_was_none_or_a_wider_one() {
        for (after, is_low) in
            [(limit(99, 1), true), (limit(100, 1), false), (limit(1, 60), true), (bytes(99_999), true)]
        {
            assert_eq!(is_worse(Policy::UNLIMITED, after, &OPEN), is_low, "{after:?}");
        }
        assert!(is_worse(limit(50, 1), limit(49, 1), &OPEN) && !is_worse(limit(50, 1), limit(51, 1), &OPEN));
        assert!(is_worse(Policy::UNLIMITED, with_burst(1_000, 9), &OPEN));
        assert!(!is_worse(Policy::UNLIMITED, with_burst(1_000, 10), &OPEN));
        assert!(!is_worse(Policy::UNLIMITED, limit(1, 1), &NEW) && is_worse(Policy::UNLIMITED, limit(59, 60), &NEW));
        let parent = ParentLimit { scope: Scope::All, policy: limit(10, 1) };
        let shared = Standing { spec: RuleSpec::new(Policy::UNLIMITED, vec![parent]), is_lasting: true };
        assert!(shared.is_worse(&Standing::unlimited(), &OPEN));
        let in_shadow = Policy { over_limit: SHADOW, ..limit(1, 60) };
        assert!(!is_worse(Policy::UNLIMITED, in_shadow, &OPEN));
    }

    #[test]
    fn a_limit_with_a_ban_is_worse_unless_it_was_there() {
        assert!(is_worse(Policy::UNLIMITED, banning(100_000, 60), &OPEN));
        assert!(is_worse(limit(1_000, 1), banning(1_000, 60), &OPEN));
        assert!(is_worse(banning(1_000, 60), banning(1_000, 61), &OPEN));
        assert!(is_worse(banning(1_000, 60), banning(999, 60), &OPEN));
        assert!(!is_worse(banning(1_000, 60), banning(1_000, 60), &OPEN));
        assert!(!is_worse(banning(1_000, 60), banning(2_000, 30), &OPEN));
    }

    #[test]
    fn the_loss_or_the_end_of_an_allow_and_a_deny_are_worse() {
        for after in [Policy::UNLIMITED, limit(1_000_000, 1), Policy::DENIED, Policy::BANNED] {
            assert!(is_worse(Policy::ALLOWED, after, &OPEN), "{after:?}");
            assert!(!is_worse(Policy::DENIED, after, &OPEN), "{after:?}");
        }
        assert!(is_worse(limit(1, 60), Policy::DENIED, &NEW) && !is_worse(Policy::BANNED, Policy::DENIED, &NEW));
        let allowed = |is_lasting| Standing { spec: Policy::ALLOWED.into(), is_lasting };
        assert!(allowed(false).is_worse(&allowed(true), &OPEN));
        assert!(!allowed(false).is_worse(&allowed(false), &OPEN) && !allowed(true).is_worse(&allowed(false), &OPEN));
        assert!(!allowed(false).is_worse(&Standing::unlimited(), &OPEN));
    }
}
