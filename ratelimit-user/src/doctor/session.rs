//! Checks the rules for the SSH session of this process.

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::{BAN, DENY, LISTED, Policy},
};

use super::finding::{Check, Finding};
use crate::{
    dataplane::{Error, rules::spec::RuleSpec, tables::open::Tables},
    limit::write,
    ssh,
};

/// Packets and bytes per second that work at a terminal does not reach.
const COMFORT: (u64, u64) = (100, 100_000);

pub(super) fn examine(tables: &Tables) -> Result<Option<Finding>, Error> {
    let Some(session) = ssh::session() else { return Ok(None) };
    // The rules for the open session, and for a new one.
    let [open, new] = session.spec(tables)?;
    let worst = if is_denied(&new) && !is_denied(&open) { new } else { open };
    Ok(Some(finding(&session.prefix().to_string(), &worst)))
}

fn is_denied(spec: &RuleSpec) -> bool {
    matches!(spec.policy.kind, DENY | BAN | LISTED)
}

fn finding(peer: &str, spec: &RuleSpec) -> Finding {
    let allow = format!("ratelimit allow add {peer}");
    if is_denied(spec) {
        let what = format!("this session comes from {peer}, which the rules deny");
        let why = "A new session cannot be opened. This one hangs if it uses an attached interface.";
        return Finding::error(Check::Ssh, &what, why).fixed_by(allow);
    }
    if *spec == RuleSpec::from(Policy::ALLOWED) || *spec == RuleSpec::from(Policy::UNLIMITED) {
        return Finding::ok(Check::Ssh, &format!("this session comes from {peer}, which has no limit"));
    }
    let what = format!("this session comes from {peer}, which is limited to {}", write::limit(spec));
    if is_narrow(&spec.policy) {
        let why = "A session sometimes needs more, and then stalls.";
        return Finding::warning(Check::Ssh, &what, why).fixed_by(allow);
    }
    let why = "A terminal needs less. Copying files may need more.";
    Finding::note(Check::Ssh, &what, why).fixed_by(allow)
}

fn is_narrow(policy: &Policy) -> bool {
    let Limit { packets, second_packets, bytes, .. } = Limit::of(policy);
    let is_below = |rate: Option<Rate>, least: u64| {
        rate.is_some_and(|rate| {
            u128::from(rate.amount) * u128::from(SECOND) < u128::from(least) * u128::from(rate.period)
        })
    };
    is_below(packets, COMFORT.0) || is_below(second_packets, COMFORT.0) || is_below(bytes, COMFORT.1)
}
