//! Checks the rules for the SSH session of this process.

use ratelimit_common::limits::policy::Policy;
use ratelimit_daemon::{
    limit::write,
    ssh::{self, NEW, OPEN, Standing},
};
use ratelimit_dataplane::{Error, rules::spec::RuleSpec, tables::open::Tables};

use super::finding::{Check, Finding};

pub(super) fn examine(tables: &Tables) -> Result<Option<Finding>, Error> {
    let Some(session) = ssh::session() else { return Ok(None) };
    // The rules for the open session, and for a new one.
    let [open, new] = session.standing(tables)?;
    let is_narrow = open.is_narrow(&OPEN) || new.is_narrow(&NEW);
    let is_new_worse = new.is_denied() && !open.is_denied() || new.is_narrow(&NEW) && !open.is_narrow(&OPEN);
    let worst = if is_new_worse { new } else { open };
    Ok(Some(finding(&session.prefix().to_string(), &worst, is_narrow)))
}

fn finding(peer: &str, standing: &Standing, is_narrow: bool) -> Finding {
    let (allow, spec) = (format!("ratelimit allow add {peer}"), &standing.spec);
    if standing.is_denied() {
        let what = format!("this session comes from {peer}, which the rules deny");
        let why = "A new session cannot be opened. This one hangs if it uses an attached interface.";
        return Finding::error(Check::Ssh, &what, why).fixed_by(allow);
    }
    if *spec == RuleSpec::from(Policy::ALLOWED) || *spec == RuleSpec::from(Policy::UNLIMITED) {
        return Finding::ok(Check::Ssh, &format!("this session comes from {peer}, which has no limit"));
    }
    let what = format!("this session comes from {peer}, which is limited to {}", write::limit(spec));
    if is_narrow {
        let why = "A session sometimes needs more, and then stalls.";
        return Finding::warning(Check::Ssh, &what, why).fixed_by(allow);
    }
    let why = "A terminal needs less. Copying files may need more.";
    Finding::note(Check::Ssh, &what, why).fixed_by(allow)
}
