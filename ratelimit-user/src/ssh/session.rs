//! An SSH session, and how a process finds the one that it runs in.

use std::{fs, net::IpAddr, os::unix::process::parent_id, process};

use ratelimit_common::identity::service::{Service, Transport};
use serde::{Deserialize, Serialize};

use crate::{
    dataplane::{
        Error,
        rules::{resolve, services::Services, spec::Terms},
        tables::open::Tables,
    },
    prefix::Prefix,
};

/// Most parents that are searched; a session is seldom more than a few shells deep.
const MOST_PARENTS: usize = 32;

/// Where SSH usually listens.
const SSH_PORT: u16 = 22;

/// Somebody who works on this host from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The address that it comes from.
    pub peer: IpAddr,
    /// The port on this host that it came to.
    pub port: u16,
}

/// Finds the SSH session of this process. `sudo` takes the variable away, so the parents are asked as well.
pub(crate) fn session() -> Option<Session> {
    let own = std::env::var("SSH_CONNECTION").ok();
    own.or_else(inherited).as_deref().and_then(Session::read)
}

/// The session that a process was started from which may outlive it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    session: Option<Session>,
    parent: u32,
}

impl Origin {
    /// Of this process, which has just begun.
    pub(crate) fn new() -> Self {
        Self { session: session(), parent: parent_id() }
    }

    /// The session, as long as the process that stands between is there: a hangup ends that one.
    pub(crate) fn session(self) -> Option<Session> {
        self.session.filter(|_| parent_id() == self.parent)
    }
}

impl Session {
    /// The four words of the variable: the peer's address and port, and ours. A link-local address may carry its interface.
    fn read(connection: &str) -> Option<Self> {
        let mut words = connection.split_whitespace();
        let session = Self::of_host(words.next()?)?;
        let port = words.nth(2).and_then(|port| port.parse().ok()).unwrap_or(SSH_PORT);
        Some(Self { port, ..session })
    }

    /// One from this address, to the usual port. Nothing where it is a name.
    pub(super) fn of_host(host: &str) -> Option<Self> {
        let peer = host.split('%').next()?.parse().ok()?;
        Some(Self { peer, port: SSH_PORT })
    }

    /// Where its packets come from.
    pub(crate) fn prefix(self) -> Prefix {
        Prefix::host(self.peer.to_canonical())
    }

    /// What becomes of the session's packets, and of those that would open another.
    pub(crate) fn terms(self, tables: &Tables) -> Result<[Terms; 2], Error> {
        let services = Services::read(tables)?;
        let of = |classes| resolve::of_address(tables, &self.prefix(), classes);
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
        let session = |text: &str| Session::read(text).map(|session| (session.prefix().to_string(), session.port));
        let expected = |peer: &str, port| Some((peer.to_owned(), port));
        assert_eq!(session("203.0.113.7 51000 192.0.2.1 22"), expected("203.0.113.7", 22));
        assert_eq!(session("fe80::1%eth0 51000 fe80::2%eth0 2222"), expected("fe80::1", 2222));
        assert_eq!(session("::ffff:203.0.113.7 51000 ::1 22"), expected("203.0.113.7", 22));
        assert_eq!(session("203.0.113.7"), expected("203.0.113.7", 22));
        assert_eq!(session(""), None);
        assert_eq!(session("UNKNOWN 65535 UNKNOWN 65535"), None);
    }
}
