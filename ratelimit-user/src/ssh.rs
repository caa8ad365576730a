//! The operator's own SSH session: where it comes from, and that no rule shuts it out by mistake.

use std::{fs, net::IpAddr, process};

use anyhow::Result;
use ratelimit_common::{
    policy::{BAN, DENY, Policy},
    rule::SSH,
    service::{Service, Transport},
};

use crate::{
    dataplane::{
        Error, Instance, resolve,
        rules::{self, Listed},
        services::Services,
        tables::Tables,
        target::Target,
        terms::Terms,
    },
    limit::write,
    prefix::Prefix,
};

/// Most parents that are searched; a session is seldom more than a few shells deep.
const MOST_PARENTS: usize = 32;

/// Where SSH usually listens.
const SSH_PORT: u16 = 22;

/// The SSH session that this process runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    /// Where it comes from.
    pub(crate) peer: Prefix,
    /// The port on this host that it came to.
    port: u16,
}

/// Finds the SSH session. `sudo` takes the variable away, so the parents are asked as well.
pub(crate) fn session() -> Option<Session> {
    let own = std::env::var("SSH_CONNECTION").ok();
    own.or_else(inherited).as_deref().and_then(Session::read)
}

/// Watches over an SSH session while many rules change.
pub(crate) struct Guard(Option<(Session, [Terms; 2])>);

impl Guard {
    /// Watches over this session, unless by `force`.
    pub(crate) fn of(instance: &Instance, force: bool) -> Result<Self, Error> {
        let Some(session) = session().filter(|_| !force) else { return Ok(Self(None)) };
        let before = session.terms(&instance.tables)?;
        Ok(Self(Some((session, before))))
    }

    /// Refuses what shuts the session out.
    ///
    /// # Errors
    ///
    /// [`Error::OwnSession`] with what would become of it.
    pub(crate) fn check(&self, tables: &Tables) -> Result<(), Error> {
        let Some((session, before)) = &self.0 else { return Ok(()) };
        let after = session.terms(tables)?;
        match before.iter().zip(&after).find(|(before, after)| is_worse(before, after)) {
            Some((_, after)) => Err(Error::OwnSession { peer: session.peer.to_string(), fate: fate(after) }),
            None => Ok(()),
        }
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
    let Some(session) = session() else { return Ok(None) };
    let peer = session.peer;
    if session.terms(&instance.tables)?.iter().any(|terms| terms.policy.kind == DENY) {
        return Err(Error::SessionDenied { peer: peer.to_string(), option });
    }
    if rules::get(&instance.tables, Target::prefix(peer))?.is_some() {
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
    let replaced = rules::get(&instance.tables, target)?;
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

impl Session {
    /// The four words of the variable: the peer's address and port, and ours. A link-local address may carry its interface.
    fn read(connection: &str) -> Option<Self> {
        let mut words = connection.split_whitespace();
        let peer: IpAddr = words.next()?.split('%').next()?.parse().ok()?;
        let port = words.nth(2).and_then(|port| port.parse().ok()).unwrap_or(SSH_PORT);
        Some(Self { peer: Prefix::host(peer.to_canonical()), port })
    }

    /// What becomes of the session's packets, and of those that would open another.
    pub(crate) fn terms(&self, tables: &Tables) -> Result<[Terms; 2], Error> {
        let services = Services::read(tables)?;
        let of = |classes| resolve::of_address(tables, &self.peer, classes);
        let open = services.classes(Service::Port(Transport::Tcp, self.port));
        Ok([of(open)?, of(services.classes_of_new(self.port))?])
    }
}

fn inherited() -> Option<String> {
    let mut process = process::id();
    for _ in 0..MOST_PARENTS {
        process = parent(process)?;
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let found = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"SSH_CONNECTION="));
        if let Some(value) = found {
            return Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    None
}

fn parent(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|&parent| parent > 0)
}

#[cfg(test)]
mod tests {
    use super::Session;

    #[test]
    fn sessions() {
        let session = |text: &str| Session::read(text).map(|session| (session.peer.to_string(), session.port));
        let expected = |peer: &str, port| Some((peer.to_owned(), port));
        assert_eq!(session("203.0.113.7 51000 192.0.2.1 22"), expected("203.0.113.7", 22));
        assert_eq!(session("fe80::1%eth0 51000 fe80::2%eth0 2222"), expected("fe80::1", 2222));
        assert_eq!(session("::ffff:203.0.113.7 51000 ::1 22"), expected("203.0.113.7", 22));
        assert_eq!(session("203.0.113.7"), expected("203.0.113.7", 22));
        assert_eq!(session(""), None);
        assert_eq!(session("UNKNOWN 65535 UNKNOWN 65535"), None);
    }
}
