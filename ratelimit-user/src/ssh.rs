//! SSH sessions, the operator's own before all: where they come from, and that no rule shuts them out by mistake.

mod logind;
mod session;

use anyhow::Result;
use ratelimit_common::{
    limits::policy::{BAN, DENY, Policy},
    rules::rule::SSH,
};

pub(crate) use self::{
    logind::sessions,
    session::{Origin, Session, session},
};
use crate::{
    dataplane::{
        Error, Instance,
        rules::{
            list::{self, Listed},
            spec::Terms,
            target::{Sources, Target},
        },
        tables::open::Tables,
    },
    limit::write,
    prefix::Prefix,
};

/// Sessions that a file must not shut out; by default none.
#[derive(Debug, Default)]
pub struct Guarded {
    /// Each once.
    sessions: Vec<Session>,
    /// The command that does it all the same.
    command: &'static str,
}

impl Guarded {
    /// These ones.
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

/// Watches over SSH sessions while many rules change.
pub(crate) struct Guard {
    before: Vec<(Session, [Terms; 2])>,
    /// What does it all the same, where this is not the session's own command.
    command: Option<&'static str>,
}

impl Guard {
    /// Watches over the own session, unless by `force`.
    pub(crate) fn of(instance: &Instance, force: bool) -> Result<Self, Error> {
        let own = session().filter(|_| !force);
        let before = own.into_iter().map(|session| Ok((session, session.terms(&instance.tables)?)));
        Ok(Self { before: before.collect::<Result<_, Error>>()?, command: None })
    }

    /// Watches over these sessions. Where everything was in shadow until now, nothing was done to them.
    pub(crate) fn over(instance: &Instance, guarded: &Guarded, was_in_shadow: bool) -> Result<Self, Error> {
        let nothing = || [Terms::from(Policy::UNLIMITED), Terms::from(Policy::UNLIMITED)];
        let before = guarded
            .sessions
            .iter()
            .map(|session| Ok((*session, if was_in_shadow { nothing() } else { session.terms(&instance.tables)? })));
        Ok(Self { before: before.collect::<Result<_, Error>>()?, command: Some(guarded.command) })
    }

    /// Refuses what shuts a session out.
    ///
    /// # Errors
    ///
    /// [`Error::ShutOut`] with what would become of it.
    pub(crate) fn check(&self, tables: &Tables) -> Result<(), Error> {
        for (session, before) in &self.before {
            let after = session.terms(tables)?;
            let worse = before.iter().zip(&after).find(|(before, after)| is_worse(before, after));
            if let Some((_, after)) = worse {
                return Err(self.refusal(session.prefix(), after, tables));
            }
        }
        Ok(())
    }

    fn refusal(&self, peer: Prefix, after: &Terms, tables: &Tables) -> Error {
        let Some(command) = self.command else { return own(peer, after) };
        let rule = narrowest(peer, after, tables).map_or_else(String::new, |rule| format!(" by the rule of {rule}"));
        Error::ShutOut {
            session: format!("an SSH session comes from {peer}"),
            fate: fate(after) + &rule,
            way_out: format!("`{command}` does it all the same"),
        }
    }
}

/// That it happens to the own session.
fn own(peer: Prefix, after: &Terms) -> Error {
    Error::ShutOut {
        session: format!("this SSH session comes from {peer}"),
        fate: fate(after),
        way_out: "nothing was changed, --force does it all the same".to_owned(),
    }
}

/// The narrowest rule that has given an address these terms.
fn narrowest(peer: Prefix, terms: &Terms, tables: &Tables) -> Option<Target> {
    let width = |target: &Target| match target.sources {
        Sources::Default => Some(0),
        Sources::Prefix(prefix) => prefix.contains(&peer).then(|| u32::from(prefix.bits()) + 1),
    };
    let rules = list::list(tables).unwrap_or_default();
    let alike = rules.into_iter().filter(|rule| *rule.terms == *terms);
    let widths = alike.filter_map(|rule| Some((width(&rule.target)?, rule.target)));
    widths.max_by_key(|(width, _)| *width).map(|(_, target)| target)
}

/// Refuses to enforce rules that stand, where they deny the own session.
///
/// # Errors
///
/// [`Error::ShutOut`] where they do.
pub(crate) fn check_rules(tables: &Tables) -> Result<(), Error> {
    let Some(session) = session() else { return Ok(()) };
    match session.terms(tables)?.iter().find(|terms| shuts_out(terms)) {
        Some(terms) => Err(own(session.prefix(), terms)),
        None => Ok(()),
    }
}

/// Whether what became of a session's packets was better before.
fn is_worse(before: &Terms, after: &Terms) -> bool {
    let (allowed, unlimited) = (Terms::from(Policy::ALLOWED), Terms::from(Policy::UNLIMITED));
    let limited = *before == allowed && *after != allowed && *after != unlimited;
    shuts_out(after) && !shuts_out(before) || limited
}

/// What becomes of a session, in words.
fn fate(terms: &Terms) -> String {
    match terms.policy.kind {
        DENY | BAN => "denied".to_owned(),
        _ => format!("limited to {}", write::limit(terms)),
    }
}

/// Allows the address that this SSH session comes from, unless it has a rule of its own already. `option` goes on without that.
///
/// # Errors
///
/// [`Error::SessionDenied`] where rules that stand deny it; nothing has changed then.
pub(crate) fn allow_peer(instance: &mut Instance, option: &'static str) -> Result<Option<Prefix>, Error> {
    session().map_or(Ok(None), |session| allow(instance, session, option))
}

/// Does the same for each of these sessions, and adds the addresses to `allowed`.
///
/// # Errors
///
/// [`Error::SessionDenied`] for the first that rules deny.
pub(crate) fn allow_each(instance: &mut Instance, guarded: &Guarded, allowed: &mut Vec<Prefix>) -> Result<(), Error> {
    for session in &guarded.sessions {
        allowed.extend(allow(instance, *session, guarded.command)?);
    }
    Ok(())
}

fn allow(instance: &mut Instance, session: Session, option: &'static str) -> Result<Option<Prefix>, Error> {
    let peer = session.prefix();
    if session.terms(&instance.tables)?.iter().any(|terms| terms.policy.kind == DENY) {
        return Err(Error::SessionDenied { peer: peer.to_string(), option });
    }
    if list::get(&instance.tables, Target::prefix(peer))?.is_some() {
        return Ok(None);
    }
    instance.set_rule(Target::prefix(peer), &Policy::ALLOWED.into(), None, SSH)?;
    Ok(Some(peer))
}

/// Makes a change to the rule of `target`, and takes it back if it shuts this SSH session out, unless by `force`. Returns the
/// rule that was there before.
pub(crate) fn guarded(
    instance: &mut Instance,
    target: Target,
    force: bool,
    change: impl FnOnce(&mut Instance) -> Result<(), Error>,
) -> Result<Option<Listed>> {
    let replaced = list::get(&instance.tables, target)?;
    let guard = Guard::of(instance, force)?;
    change(instance)?;
    if let Err(error) = guard.check(&instance.tables) {
        match &replaced {
            Some(rule) => instance.set_rule(target, &rule.terms, rule.expires_in, rule.origin)?,
            None => instance.delete_rule(target)?,
        }
        return Err(error.into());
    }
    Ok(replaced)
}

fn shuts_out(terms: &Terms) -> bool {
    matches!(terms.policy.kind, DENY | BAN)
}
