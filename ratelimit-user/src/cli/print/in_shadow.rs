//! Limits that only count, although their instance enforces.

use std::{
    io::{self, Write},
    path::Path,
};

use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{
    identity::service::Service,
    limits::policy::{LIMIT, Policy, SHADOW},
    maps::control::FEATURE_SHADOW,
};
use ratelimit_daemon::limit::write;
use ratelimit_dataplane::{
    Error,
    attach::attachment::Attachment,
    instance::read_only::View,
    lists::{action::Action, listing},
    rules::{
        list::{self, Listed},
        target::Target,
    },
    tables::open::Tables,
};

/// The number of limits that text names. Further ones are counted.
const NAMED: usize = 5;

/// The rules and lists whose packets over the limit pass.
pub(crate) struct InShadow {
    rules: Vec<Listed>,
    lists: Vec<String>,
}

/// Returns whether a limit has `--over-limit shadow`.
pub(crate) const fn is_own(policy: &Policy) -> bool {
    policy.kind == LIMIT && policy.over_limit == SHADOW
}

impl InShadow {
    pub(crate) fn read(tables: &Tables) -> Result<Self, Error> {
        let rules = list::list(tables)?.into_iter().filter(|rule| is_own(&rule.spec.policy)).collect();
        let is_in_shadow = |action: &Action| matches!(action, Action::Limit(spec) if is_own(&spec.policy));
        let lists = listing::all(tables)?.into_iter().filter(|list| is_in_shadow(&list.action)).map(|list| list.name);
        Ok(Self { rules, lists: lists.collect() })
    }

    /// Names each limit with the command that enforces it.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for Listed { target, spec, .. } in self.rules.iter().take(NAMED) {
            let (limit, command) = (write::spec(spec), enforcing(*target));
            writeln!(out, "  except {target}: {limit} (to enforce: `{command}`)")?;
        }
        match self.rules.len().saturating_sub(NAMED) {
            0 => {}
            more => writeln!(out, "  except {more} more limits with `--over-limit shadow`: `ratelimit limit list`")?,
        }
        self.lists.iter().try_for_each(|name| {
            writeln!(out, "  except the list {name}: to enforce it, set it again with `--over-limit drop`")
        })
    }
}

/// Returns whether a limit may have `--over-limit shadow`: also one whose rules were deleted lately.
pub(crate) fn may_be(tables: &Tables) -> Result<bool, Error> {
    Ok(tables.policies.all()?.iter().any(is_own))
}

/// Returns the command that enforces a limit.
fn enforcing(target: Target) -> String {
    let service = match target.service {
        Service::Any => String::new(),
        service => format!(" --service {}", ServiceName(service)),
    };
    format!("ratelimit limit set {}{service} --over-limit drop", target.sources)
}

/// Returns whether every packet passes: the whole instance is in shadow, or each of its interfaces alone.
pub(crate) fn is_everything(tables: &Tables, pins: &Path) -> Result<bool, Error> {
    let attached = View::attachments_in(pins)?;
    let are_all = !attached.is_empty() && attached.iter().all(Attachment::is_shadow);
    Ok(are_all || tables.control()?.features & FEATURE_SHADOW != 0)
}
