//! A policy as JSON: what a rule, a default or a list does with packets.

use ratelimit_base::text::{
    throttle::Throttle,
    units::{ByteRate, PacketRate},
};
use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::{ALLOW, BAN, Ban, DENY, LIMIT, LISTED},
};
use ratelimit_daemon::limit::{excess, write};
use ratelimit_dataplane::rules::spec::RuleSpec;
use serde::Serialize;

/// A policy in the output. What only limits have is null for all others.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PolicyRow {
    /// The policy in words.
    pub(crate) text: String,
    /// `limit` (also without a rate), `allow`, `deny`, `ban` or `list`.
    kind: &'static str,
    /// The name of the policy in a configuration file.
    pub(crate) name: Option<String>,
    /// One limit of packets or two that both apply.
    pub(crate) packets: Vec<RateRow>,
    pub(crate) bytes: Option<RateRow>,
    /// Packets. Null for algorithms without a burst.
    pub(crate) burst: Option<u64>,
    pub(crate) algorithm: Option<&'static str>,
    pub(crate) throttle: Option<String>,
    /// `drop`, `reject` or `shadow`.
    pub(crate) over_limit: Option<&'static str>,
    /// Null if the limit does not ban.
    pub(crate) ban: Option<BanRow>,
    /// Limits of wider prefixes, as options give them.
    pub(crate) parents: Vec<String>,
}

/// An amount in a time.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RateRow {
    amount: u64,
    /// The time.
    seconds: u64,
    /// The same as options give it.
    pub(crate) text: String,
}

/// The ban of sources that exceed a limit.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct BanRow {
    /// The length of the first ban.
    seconds: u64,
    /// Drops before it.
    after: u32,
    /// The longest ban.
    cap_seconds: u64,
    #[serde(skip)]
    ban: Ban,
}

impl BanRow {
    pub(crate) fn text(&self) -> Option<String> {
        excess::ban(&self.ban)
    }
}

impl PolicyRow {
    /// Describes a policy in a few words.
    pub(crate) fn of(spec: &RuleSpec) -> Self {
        Self::with(spec, write::spec(spec))
    }

    /// Describes a limit with its burst.
    pub(crate) fn of_limit(spec: &RuleSpec) -> Self {
        Self::with(spec, write::limit(spec))
    }

    fn with(spec: &RuleSpec, text: String) -> Self {
        let policy = &spec.policy;
        let is_limit = policy.kind == LIMIT;
        let Limit { packets, second_packets, bytes, .. } = if is_limit { Limit::of(policy) } else { Limit::default() };
        let packets = [packets, second_packets].into_iter().flatten();
        let of_limit = |value: &'static str| is_limit.then_some(value);
        Self {
            text,
            kind: match policy.kind {
                ALLOW => "allow",
                DENY => "deny",
                BAN => "ban",
                LISTED => "list",
                _ => "limit",
            },
            name: spec.name().map(str::to_owned),
            packets: packets.map(|rate| RateRow::of(rate, PacketRate(rate).to_string())).collect(),
            bytes: bytes.map(|rate| RateRow::of(rate, ByteRate(rate).to_string())),
            burst: Some(policy.given.burst).filter(|burst| is_limit && *burst != 0),
            algorithm: of_limit(write::algorithm(policy)),
            throttle: is_limit.then(|| Throttle::of(policy).to_string()),
            over_limit: of_limit(excess::over_limit(policy)),
            ban: (is_limit && policy.ban.time != 0).then_some(BanRow {
                seconds: policy.ban.time / SECOND,
                after: policy.ban.after,
                cap_seconds: policy.ban.most / SECOND,
                ban: policy.ban,
            }),
            parents: spec.parents.iter().map(write::parent).collect(),
        }
    }
}

impl RateRow {
    fn of(rate: Rate, text: String) -> Self {
        Self { amount: rate.amount, seconds: rate.period / SECOND, text }
    }
}
