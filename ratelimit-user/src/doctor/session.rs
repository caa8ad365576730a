//! The SSH session that this runs in, if it does, and what the rules make of it.

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::{BAN, DENY, Policy},
};

use super::{Check, Finding};
use crate::{
    dataplane::{Error, rules::spec::Terms, tables::open::Tables},
    limit::write,
    ssh,
};

/// Packets and bytes per second that people at a terminal do not reach.
const COMFORT: (u64, u64) = (100, 100_000);

pub(super) fn examine(tables: &Tables) -> Result<Option<Finding>, Error> {
    let Some(session) = ssh::session() else { return Ok(None) };
    // What is open, and what would be opened anew.
    let [open, new] = session.terms(tables)?;
    let worst = if shuts_out(&new) && !shuts_out(&open) { new } else { open };
    Ok(Some(told(&session.prefix().to_string(), &worst)))
}

fn shuts_out(terms: &Terms) -> bool {
    matches!(terms.policy.kind, DENY | BAN)
}

fn told(peer: &str, terms: &Terms) -> Finding {
    let allow = format!("ratelimit allow add {peer}");
    if shuts_out(terms) {
        let what = format!("this session comes from {peer}, which the rules deny");
        let why = "A new session cannot be opened, and this one hangs if it comes in by an attached interface.";
        return Finding::error(Check::Ssh, &what, why).mended_by(allow);
    }
    if *terms == Terms::from(Policy::ALLOWED) || *terms == Terms::from(Policy::UNLIMITED) {
        return Finding::ok(Check::Ssh, &format!("this session comes from {peer}, which may send what it likes"));
    }
    let what = format!("this session comes from {peer}, which is limited to {}", write::limit(terms));
    if is_narrow(&terms.policy) {
        let why = "A session needs more at times, and stalls then.";
        return Finding::warning(Check::Ssh, &what, why).mended_by(allow);
    }
    let why = "A terminal needs less; copying files may need more.";
    Finding::note(Check::Ssh, &what, why).mended_by(allow)
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
