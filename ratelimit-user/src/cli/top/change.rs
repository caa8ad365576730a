//! Bans or allows a source, as the commands `deny add` and `allow add` do.

use std::{path::Path, time::Duration};

use anyhow::Result;
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::limits::policy::Policy;
use ratelimit_daemon::{controller::events::changes, edits::request::Request, ssh};
use ratelimit_dataplane::{
    Instance,
    rules::{spec::RuleSpec, target::Target},
};

use crate::cli::rules::change;

/// The length of a ban.
const BAN: Duration = Duration::from_secs(600);

/// What the operator wants for a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Drop its packets for a while.
    Ban,
    /// Let its packets pass.
    Allow,
}

/// Sets the rule of a source. Returns what to tell the operator.
pub(super) fn set(pins: &Path, verdict: Verdict, prefix: Prefix) -> String {
    match try_set(pins, verdict, prefix) {
        Ok(message) => message,
        Err(error) => format!("nothing changed: {error:#}"),
    }
}

fn try_set(pins: &Path, verdict: Verdict, prefix: Prefix) -> Result<String> {
    let mut instance = Instance::open(pins)?;
    let (policy, life) = match verdict {
        Verdict::Ban => (Policy::DENIED, Some(BAN)),
        Verdict::Allow => (Policy::ALLOWED, None),
    };
    let (target, spec) = (Target::prefix(prefix), RuleSpec::from(policy));
    let request = Request { target, spec, life, comment: None, keeps_throttle: false };
    let set = change::set(&mut instance, vec![request], false)?;
    let (name, what) = match verdict {
        Verdict::Ban => ("deny", format!("deny add {prefix} --for 10m")),
        Verdict::Allow => ("allow", format!("allow add {prefix}")),
    };
    // The change itself is done.
    let _ = changes::record_as_operator(pins, &what);
    let mut message = String::new();
    for (line, is_new) in set.iter().map(|set| change::line(set, name, life)) {
        message += &line;
        if is_new {
            message += &format!(" (to undo: `ratelimit {name} del {prefix}`)");
        }
    }
    if let Some(peer) = ssh::allowed() {
        message += &format!("; {peer}, the address of this SSH session, is allowed");
    }
    Ok(message)
}
