//! A limit or a verdict as a configuration file writes it.

use std::time::Duration;

use ratelimit_base::text::{
    throttle::Throttle,
    units::{self, ByteRate, PacketRate},
};
use ratelimit_common::limits::{
    limit::Limit,
    policy::{ALLOW, DENY, DROP},
};
use ratelimit_dataplane::rules::spec::RuleSpec;
use serde::Serialize;

use crate::limit::{excess, write};

/// A limit or verdict.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Saved {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) packets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) burst: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) algorithm: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) throttle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) over_limit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ban: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ban_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ban_cap: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parent: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comment: Option<String>,
}

/// Returns a limit or verdict without its name.
pub(super) fn spec(spec: &RuleSpec) -> Saved {
    let policy = &spec.policy;
    match policy.kind {
        ALLOW => return Saved { policy: Some("allow".to_owned()), ..Saved::default() },
        DENY => return Saved { policy: Some("deny".to_owned()), ..Saved::default() },
        _ => {}
    }
    let limit = Limit::of(policy);
    let rates = [limit.packets, limit.second_packets].into_iter().flatten();
    let has_limits = limit.packets.is_some() || limit.bytes.is_some();
    let is_banning = policy.ban.time != 0;
    let duration = |nanoseconds| units::exact_duration(Duration::from_nanos(nanoseconds));
    Saved {
        policy: None,
        packets: rates.map(|rate| PacketRate(rate).to_string()).collect(),
        bytes: limit.bytes.map(|rate| ByteRate(rate).to_string()),
        burst: has_limits.then_some(policy.given.burst).filter(|burst| *burst != 0),
        algorithm: has_limits.then(|| write::algorithm(policy)),
        throttle: (Throttle::of(policy) != Throttle::Hard).then(|| Throttle::of(policy).to_string()),
        over_limit: (policy.over_limit != DROP).then(|| excess::over_limit(policy)),
        ban: is_banning.then(|| duration(policy.ban.time)),
        ban_after: is_banning.then_some(policy.ban.after),
        ban_cap: is_banning.then(|| duration(policy.ban.most)),
        parent: spec.parents.iter().map(write::parent).collect(),
        comment: None,
    }
}
