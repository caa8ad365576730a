//! The operator's own SSH session: where it comes from, and that no rule shuts it out by mistake.

use std::{fs, net::IpAddr, process};

use anyhow::{Result, bail};
use ratelimit_common::{
    policy::{BAN, DENY, Policy},
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
pub(super) struct Session {
    /// Where it comes from.
    pub(super) peer: Prefix,
    /// The port on this host that it came to.
    port: u16,
}

/// Finds the SSH session. `sudo` takes the variable away, so the parents are asked as well.
pub(super) fn session() -> Option<Session> {
    let own = std::env::var("SSH_CONNECTION").ok();
    own.or_else(inherited).as_deref().and_then(Session::read)
}

/// Makes a change to the rule of `target`, and takes it back if it shuts this SSH session out, unless by `force`. Returns the
/// rule that was there before.
pub(super) fn guarded(
    instance: &mut Instance,
    target: Target,
    force: bool,
    change: impl FnOnce(&mut Instance) -> Result<(), Error>,
) -> Result<Option<Listed>> {
    let replaced = rules::get(&instance.tables, target)?;
    let Some(session) = session().filter(|_| !force) else {
        change(instance)?;
        return Ok(replaced);
    };
    let before = session.terms(&instance.tables)?;
    change(instance)?;
    let after = session.terms(&instance.tables)?;
    let (allowed, unlimited) = (Terms::from(Policy::ALLOWED), Terms::from(Policy::UNLIMITED));
    let is_worse = |(before, after): &(&Terms, &Terms)| {
        let limited = **before == allowed && **after != allowed && **after != unlimited;
        shuts_out(after) && !shuts_out(before) || limited
    };
    if let Some((_, after)) = before.iter().zip(&after).find(is_worse) {
        let fate = match after.policy.kind {
            DENY | BAN => "denied".to_owned(),
            _ => format!("limited to {}", write::limit(after)),
        };
        match &replaced {
            Some(rule) => instance.set_rule(target, &rule.terms, rule.expires_in, rule.origin)?,
            None => instance.delete_rule(target)?,
        }
        bail!(
            "this SSH session comes from {}, which would be {fate}: nothing was changed, --force does it all the same",
            session.peer
        );
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
    pub(super) fn terms(&self, tables: &Tables) -> Result<[Terms; 2], Error> {
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
