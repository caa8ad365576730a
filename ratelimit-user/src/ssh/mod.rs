//! Protection of SSH sessions: this folder finds them, and checks that no change of rules blocks them by mistake.
//!
//! A command protects its own session. The daemon protects the sessions that requests name and those that logind knows.

mod logind;
mod session;

use ratelimit_common::{
    limits::policy::{BAN, DENY, LISTED, Policy},
    rules::rule::SSH,
};

pub(crate) use self::{
    logind::sessions,
    session::{Origin, Session, session},
};
use crate::{
    dataplane::{
        Error, Instance,
        lists::change::ListChange,
        rules::{
            batch::{Change, Changed},
            list,
            spec::RuleSpec,
            target::{Sources, Target},
        },
        tables::open::Tables,
    },
    limit::write,
    text::prefix::Prefix,
};

/// Sessions that a configuration file must not block. Empty by default.
#[derive(Debug, Default)]
pub struct ProtectedSessions {
    /// Sessions without duplicates.
    sessions: Vec<Session>,
    /// The command that applies the file anyway.
    command: &'static str,
}

impl ProtectedSessions {
    /// Protects these sessions.
    pub(crate) fn new(sessions: impl IntoIterator<Item = Session>, command: &'static str) -> Self {
        let mut each = Vec::new();
        for session in sessions {
            if !each.contains(&session) {
                each.push(session);
            }
        }
        Self { sessions: each, command }
    }
}

/// Checks the rules for SSH sessions before and after a change.
pub(crate) struct Guard {
    before: Vec<(Session, [RuleSpec; 2])>,
    /// The command that makes the change anyway. None if this command has `--force`.
    command: Option<&'static str>,
}

impl Guard {
    /// Protects the session of this process, unless `force` is set.
    fn of(instance: &Instance, force: bool) -> Result<Self, Error> {
        let own = session().filter(|_| !force);
        let before = own.into_iter().map(|session| Ok((session, session.spec(&instance.tables)?)));
        Ok(Self { before: before.collect::<Result<_, Error>>()?, command: None })
    }

    /// Protects these sessions. `was_in_shadow` tells that no rule was enforced before.
    pub(crate) fn over(instance: &Instance, protected: &ProtectedSessions, was_in_shadow: bool) -> Result<Self, Error> {
        let nothing = || [RuleSpec::from(Policy::UNLIMITED), RuleSpec::from(Policy::UNLIMITED)];
        let before = protected
            .sessions
            .iter()
            .map(|session| Ok((*session, if was_in_shadow { nothing() } else { session.spec(&instance.tables)? })));
        Ok(Self { before: before.collect::<Result<_, Error>>()?, command: Some(protected.command) })
    }

    /// Checks that no session is worse off than before.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::ShutOut`] if a session would be blocked or newly limited.
    pub(crate) fn check(&self, tables: &Tables) -> Result<(), Error> {
        for (session, before) in &self.before {
            let after = session.spec(tables)?;
            let worse = before.iter().zip(&after).find(|(before, after)| is_worse(before, after));
            if let Some((_, after)) = worse {
                return Err(self.refusal(session.prefix(), after, tables));
            }
        }
        Ok(())
    }

    fn refusal(&self, peer: Prefix, after: &RuleSpec, tables: &Tables) -> Error {
        let Some(command) = self.command else { return own(peer, after) };
        let rule = narrowest(peer, after, tables).map_or_else(String::new, |rule| format!(" by the rule for {rule}"));
        Error::ShutOut {
            session: format!("an SSH session comes from {peer}"),
            fate: fate(after) + &rule,
            way_out: format!("`{command}` applies it anyway"),
        }
    }
}

/// Returns the error for the session of this process.
fn own(peer: Prefix, after: &RuleSpec) -> Error {
    Error::ShutOut {
        session: format!("this SSH session comes from {peer}"),
        fate: fate(after),
        way_out: "nothing was changed, --force does it anyway".to_owned(),
    }
}

/// Returns the narrowest rule with this spec that contains an address.
fn narrowest(peer: Prefix, spec: &RuleSpec, tables: &Tables) -> Option<Target> {
    let width = |target: &Target| match target.sources {
        Sources::Default => Some(0),
        Sources::Prefix(prefix) => prefix.contains(&peer).then(|| u32::from(prefix.bits()) + 1),
    };
    let rules = list::list(tables).unwrap_or_default();
    let alike = rules.into_iter().filter(|rule| *rule.spec == *spec);
    let widths = alike.filter_map(|rule| Some((width(&rule.target)?, rule.target)));
    widths.max_by_key(|(width, _)| *width).map(|(_, target)| target)
}

/// Checks that the existing rules do not deny the session of this process.
///
/// # Errors
///
/// Fails with [`Error::ShutOut`] if they do.
pub(crate) fn check_rules(tables: &Tables) -> Result<(), Error> {
    let Some(session) = session() else { return Ok(()) };
    match session.spec(tables)?.iter().find(|spec| is_denied(spec)) {
        Some(spec) => Err(own(session.prefix(), spec)),
        None => Ok(()),
    }
}

/// Returns whether a session is worse off than before: newly denied, or limited where everything was allowed.
fn is_worse(before: &RuleSpec, after: &RuleSpec) -> bool {
    let (allowed, unlimited) = (RuleSpec::from(Policy::ALLOWED), RuleSpec::from(Policy::UNLIMITED));
    let limited = *before == allowed && *after != allowed && *after != unlimited;
    is_denied(after) && !is_denied(before) || limited
}

/// Returns what the rules do with a session, in words.
fn fate(spec: &RuleSpec) -> String {
    match spec.policy.kind {
        DENY | BAN | LISTED => "denied".to_owned(),
        _ => format!("limited to {}", write::limit(spec)),
    }
}

/// Allows the address of this SSH session, unless it has its own rule. `option` is the option that skips this.
///
/// # Errors
///
/// Fails with [`Error::SessionDenied`] if the existing rules deny it. Nothing has changed then.
pub(crate) fn allow_peer(instance: &mut Instance, option: &'static str) -> Result<Option<Prefix>, Error> {
    session().map_or(Ok(None), |session| allow(instance, session, option))
}

/// Allows the addresses of these sessions, unless they have their own rules, and adds them to `allowed`.
///
/// # Errors
///
/// Fails with [`Error::SessionDenied`] for the first session that rules deny.
pub(crate) fn allow_each(
    instance: &mut Instance,
    protected: &ProtectedSessions,
    allowed: &mut Vec<Prefix>,
) -> Result<(), Error> {
    for session in &protected.sessions {
        allowed.extend(allow(instance, *session, protected.command)?);
    }
    Ok(())
}

fn allow(instance: &mut Instance, session: Session, option: &'static str) -> Result<Option<Prefix>, Error> {
    let peer = session.prefix();
    if session.spec(&instance.tables)?.iter().any(|spec| matches!(spec.policy.kind, DENY | LISTED)) {
        return Err(Error::SessionDenied { peer: peer.to_string(), option });
    }
    if list::get(&instance.tables, Target::prefix(peer))?.is_some() {
        return Ok(None);
    }
    instance.set_rule(Target::prefix(peer), &Policy::ALLOWED.into(), None, SSH)?;
    Ok(Some(peer))
}

/// Makes a change of rules, unless it blocks this SSH session. With `force`, it is not checked.
///
/// # Errors
///
/// [`Error::ShutOut`], and those of [`Instance::change`]. Nothing has changed then.
pub(crate) fn change(
    instance: &mut Instance,
    change: &Change,
    force: bool,
    progress: &mut dyn FnMut(usize),
) -> Result<Changed, Error> {
    let guard = Guard::of(instance, force)?;
    instance.change(change, progress, &|tables| guard.check(tables))
}

/// Makes a change of lists, unless it blocks this SSH session. With `force`, it is not checked.
///
/// # Errors
///
/// [`Error::ShutOut`], and those of [`Instance::change_lists`]. Nothing has changed then.
pub(crate) fn change_lists(instance: &mut Instance, change: &ListChange, force: bool) -> Result<(), Error> {
    let guard = Guard::of(instance, force)?;
    instance.change_lists(change, &|tables| guard.check(tables))
}

fn is_denied(spec: &RuleSpec) -> bool {
    matches!(spec.policy.kind, DENY | BAN | LISTED)
}
