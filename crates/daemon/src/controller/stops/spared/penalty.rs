//! The limit of a stopped client: so low that its requests cost little, and so high that it still reads its refusal.

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::LIMIT,
};
use ratelimit_dataplane::rules::spec::RuleSpec;

/// Packets in a second.
const RATE: Rate = Rate { amount: 5, period: SECOND };
/// Packets at once: enough for a new connection with a handshake of TLS, a request and its refusal.
const BURST: u64 = 20;

/// Limits of packets below this many times [`RATE`] are not replaced. A client can be stopped for several ports, each with
/// a limit of its own.
const LOW: u128 = 4;

/// Returns the limit of a source that has this limit by default. It keeps the limit of bytes and the parents, which are
/// not looser then. None if a limit of packets is nearly as low as this one, or if the default does not limit. None too
/// if it bans: without the ban, the limit would be looser, and with it, a wall.
pub(super) fn of(default: Option<&RuleSpec>) -> Option<RuleSpec> {
    let Some(RuleSpec { policy, parents }) = default else {
        let limit = Limit { packets: Some(RATE), burst: Some(BURST), ..Limit::default() };
        return Some(limit.policy().ok()?.into());
    };
    if policy.kind != LIMIT || policy.ban.time > 0 {
        return None;
    }
    let Limit { packets, second_packets, bytes, burst, .. } = Limit::of(policy);
    if [packets, second_packets].iter().flatten().any(is_as_low) {
        return None;
    }
    let burst = burst.map_or(BURST, |burst| burst.min(BURST));
    let limit = Limit { packets: Some(RATE), bytes, burst: Some(burst), ..Limit::default() };
    Some(RuleSpec::new(limit.policy().ok()?, parents.clone()))
}

fn is_as_low(rate: &Rate) -> bool {
    u128::from(rate.amount) * u128::from(RATE.period) < LOW * u128::from(RATE.amount) * u128::from(rate.period)
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::policy::{Ban, Policy};

    use super::*;

    fn after(limit: Limit) -> Option<Limit> {
        of(Some(&limit.policy().unwrap().into())).map(|spec| Limit::of(&spec.policy))
    }

    fn packets(amount: u64, seconds: u64) -> Option<Rate> {
        Some(Rate { amount, period: seconds * SECOND })
    }

    #[test]
    fn a_stop_never_loosens_the_default() {
        let plain = Limit { packets: Some(RATE), burst: Some(BURST), ..Limit::default() };
        assert_eq!(of(None).map(|spec| Limit::of(&spec.policy)), Some(plain));
        assert_eq!(after(Limit { packets: packets(1_000, 1), ..Limit::default() }), Some(plain));
        for rate in [packets(5, 1), packets(300, 60), packets(1, 1), packets(19, 1), packets(1_199, 60)] {
            assert_eq!(after(Limit { packets: rate, ..Limit::default() }), None);
        }
        assert_eq!(after(Limit { packets: packets(20, 1), ..Limit::default() }), Some(plain));
        let quota = Limit { packets: packets(1_000, 1), second_packets: packets(10_000, 3_600), ..Limit::default() };
        assert_eq!(after(quota), None);
        let short = Limit { packets: packets(1_000, 1), burst: Some(3), ..Limit::default() };
        assert_eq!(after(short), Some(Limit { burst: Some(3), ..plain }));
        let bytes = Some(Rate { amount: 1_000, period: SECOND });
        assert_eq!(after(Limit { bytes, ..Limit::default() }).unwrap().bytes, bytes);
        let limit = Limit { packets: packets(1_000, 1), ..Limit::default() };
        let ban = Ban { time: 60 * SECOND, most: 3_600 * SECOND, after: 100, reserved: 0 };
        let bans = Policy { ban, ..limit.policy().unwrap() };
        assert_eq!(of(Some(&bans.into())), None);
        for policy in [Policy::DENIED, Policy::ALLOWED] {
            assert_eq!(of(Some(&policy.into())), None);
        }
    }
}
