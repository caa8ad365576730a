//! Allows the addresses of sessions. An allow outranks every limit, list and ban, so such a session is not shut out.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{identity::service::Service, limits::policy::Policy, rules::rule::SSH};
use ratelimit_dataplane::{
    Error, Instance,
    lists::change::ListChange,
    pins::declined,
    rules::{
        batch::{Change, Changed},
        list,
        target::Target,
    },
};

use super::{
    guard::{Guard, ProtectedSessions},
    session::{Session, session},
    standing::Standing,
};

/// Whether the operator declines that this process allows an address. A process runs one command in one session.
static DECLINED: AtomicBool = AtomicBool::new(false);

/// The address that this process has allowed.
static ALLOWED: OnceLock<Prefix> = OnceLock::new();

/// What a forced change has done to a session.
static SHUT_OUT: OnceLock<String> = OnceLock::new();

/// Declines that this process allows the address of its session.
pub fn decline() {
    DECLINED.store(true, Ordering::Relaxed);
}

/// Returns whether the operator declines that.
pub fn is_declined() -> bool {
    DECLINED.load(Ordering::Relaxed)
}

/// Returns the address that a change in this process has allowed.
pub fn allowed() -> Option<Prefix> {
    ALLOWED.get().copied()
}

/// Returns what a forced change in this process has done to a session.
pub fn shut_out() -> Option<&'static str> {
    SHUT_OUT.get().map(String::as_str)
}

/// Returns the sessions of which a forced change tells. A failure to find them does not stop that change.
fn watched(instance: &Instance, force: bool) -> Option<Guard> {
    if force { Guard::of(&instance.tables, false).ok() } else { None }
}

/// Records which session a forced change has made worse off.
fn watch(guard: Option<&Guard>, instance: &Instance) {
    if let Some(Err(Error::ShutOut { session, fate, .. })) = guard.map(|guard| guard.check(&instance.tables)) {
        let _ = SHUT_OUT.set(format!("{session}, which is now {fate}"));
    }
}

/// Makes a change of rules, unless it makes an SSH session worse off. The address of this process's session is allowed
/// first. With `force`, nothing is checked or allowed.
///
/// # Errors
///
/// [`Error::ShutOut`], and those of [`Instance::change`]. Nothing has changed then.
pub fn change(
    instance: &mut Instance,
    change: &Change,
    force: bool,
    progress: &mut dyn FnMut(usize),
) -> Result<Changed, Error> {
    let own = session().map(|session| Target::prefix(session.prefix()));
    let is_own = |target: Target| Some(target) == own;
    // The operator decides about this address.
    let is_decided = change.targets().any(is_own);
    let was_allowed = match own.filter(|own| change.deleted.contains(own)) {
        Some(own) => list::get(&instance.tables, own)?.is_some_and(|rule| rule.origin == SSH),
        None => false,
    };
    let forced = watched(instance, force);
    let changed = protect_unless(is_decided, instance, force, |instance| {
        let guard = Guard::of(&instance.tables, force)?;
        instance.change(change, progress, &|tables| guard.check(tables))
    })?;
    watch(forced.as_ref(), instance);
    if let Some(session) = session().filter(|_| was_allowed) {
        // Without the mark, a later command allows the address again, and says so.
        drop(declined::record(instance.pins(), &session.prefix()));
    }
    Ok(changed)
}

/// Makes a change of lists, unless it makes an SSH session worse off. The address of this process's session is allowed
/// first. With `force`, nothing is checked or allowed.
///
/// # Errors
///
/// [`Error::ShutOut`], and those of [`Instance::change_lists`]. Nothing has changed then.
pub fn change_lists(instance: &mut Instance, change: &ListChange, force: bool) -> Result<(), Error> {
    let forced = watched(instance, force);
    protect(instance, force, |instance| {
        let guard = Guard::of(&instance.tables, force)?;
        instance.change_lists(change, &|tables| guard.check(tables))
    })?;
    watch(forced.as_ref(), instance);
    Ok(())
}

/// Allows the address of this process's session, unless `force` is set, and does the work. If the work fails, that is
/// undone.
///
/// # Errors
///
/// Those of the work.
pub fn protect<T>(
    instance: &mut Instance,
    force: bool,
    work: impl FnOnce(&mut Instance) -> Result<T, Error>,
) -> Result<T, Error> {
    protect_unless(false, instance, force, work)
}

fn protect_unless<T>(
    is_decided: bool,
    instance: &mut Instance,
    force: bool,
    work: impl FnOnce(&mut Instance) -> Result<T, Error>,
) -> Result<T, Error> {
    let own = session().filter(|_| !force && !is_decided && !is_declined());
    let allowed = match own.map(|session| allow(instance, session)) {
        // Without space for a rule, the command may be the one that makes space. It is checked all the same.
        None | Some(Err(Error::TooManyRules { .. })) => None,
        Some(outcome) => outcome?,
    };
    let outcome = work(instance);
    match (&outcome, allowed) {
        (Ok(_), Some(peer)) => drop(ALLOWED.set(peer)),
        // The next command puts the change in force.
        (Err(Error::Written { .. }), Some(_)) => {}
        // The operator must see the failure itself, not one of undoing.
        (Err(_), Some(peer)) => drop(instance.delete_rule(Target::prefix(peer))),
        (_, None) => {}
    }
    outcome
}

/// Allows the address of this SSH session before an attach. `option` is the option that skips this.
///
/// # Errors
///
/// Fails with [`Error::SessionDenied`] if the existing rules deny it. Nothing has changed then.
pub fn allow_peer(instance: &mut Instance, option: &'static str) -> Result<Option<Prefix>, Error> {
    session().filter(|_| !is_declined()).map_or(Ok(None), |session| allow_or_fail(instance, session, option))
}

/// Allows the addresses of these sessions before an attach, and adds them to `allowed`. Rules of the file stay: `is_planned`
/// tells which targets have one.
///
/// # Errors
///
/// Fails with [`Error::SessionDenied`] for the first session that rules deny.
pub fn allow_each(
    instance: &mut Instance,
    protected: &ProtectedSessions,
    is_planned: &dyn Fn(Target) -> bool,
    allowed: &mut Vec<Prefix>,
) -> Result<(), Error> {
    for session in protected.sessions.iter().filter(|session| may_allow(protected, session, is_planned)) {
        allowed.extend(allow_or_fail(instance, *session, protected.command)?);
    }
    Ok(())
}

/// Allows the address of the session that asks for a reload, and adds it to `allowed`. Rules of the file stay.
///
/// # Errors
///
/// Those of [`Instance::set_rule`].
pub fn allow_own(
    instance: &mut Instance,
    protected: &ProtectedSessions,
    is_planned: &dyn Fn(Target) -> bool,
    allowed: &mut Vec<Prefix>,
) -> Result<(), Error> {
    for session in protected.own.iter().filter(|session| may_allow(protected, session, is_planned)) {
        allowed.extend(allow(instance, *session)?);
    }
    Ok(())
}

fn may_allow(protected: &ProtectedSessions, session: &Session, is_planned: &dyn Fn(Target) -> bool) -> bool {
    !protected.declines && !is_planned(Target::prefix(session.prefix()))
}

fn allow_or_fail(instance: &mut Instance, session: Session, option: &'static str) -> Result<Option<Prefix>, Error> {
    let allowed = allow(instance, session)?;
    if session.standing(&instance.tables)?.iter().any(Standing::is_denied) {
        return Err(Error::SessionDenied { peer: session.prefix().to_string(), option });
    }
    Ok(allowed)
}

/// Allows the address of a session, and returns it. An address with a rule of its own keeps it. An address that other
/// rules allow without an end needs none. An address whose allow an operator has deleted in its session gets none.
fn allow(instance: &mut Instance, session: Session) -> Result<Option<Prefix>, Error> {
    let (peer, tables) = (session.prefix(), &instance.tables);
    let target = Target::prefix(peer).of(Service::Any);
    let is_allowed = session.standing(tables)?.iter().all(|standing| standing.is_allowed() && standing.is_lasting);
    if is_allowed || list::get(tables, target)?.is_some() || declined::is(instance.pins(), &peer) {
        return Ok(None);
    }
    instance.set_rule(target, &Policy::ALLOWED.into(), None, SSH)?;
    Ok(Some(peer))
}
