//! SSH sessions, and how a process finds its own.

use std::{net::IpAddr, os::unix::process::parent_id, sync::OnceLock};

use ratelimit_common::identity::service::Transport;
use serde::{Deserialize, Serialize};

use super::standing::Standing;
use crate::{
    dataplane::{
        Error,
        rules::{resolve, services::Services},
        sys::processes,
        tables::open::Tables,
    },
    text::prefix::Prefix,
};

/// The environment variable in which the SSH server tells both ends of the connection.
const VARIABLE: &str = "SSH_CONNECTION";

/// The usual port of SSH.
const SSH_PORT: u16 = 22;

/// A remote session on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The address of the client.
    pub peer: IpAddr,
    /// The port on this host.
    pub port: u16,
}

/// Returns the SSH session of this process. `sudo` removes the variable, so parent processes are searched too, once.
pub(crate) fn session() -> Option<Session> {
    static FOUND: OnceLock<Option<Session>> = OnceLock::new();
    let own = || Session::read(&std::env::var(VARIABLE).ok()?);
    *FOUND.get_or_init(|| own().or_else(|| processes::ancestors().find_map(Session::of_process)))
}

/// The session that started a process, which may outlive the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    session: Option<Session>,
    parent: u32,
}

impl Origin {
    /// Returns the origin of this process. Must be called at its start.
    pub(crate) fn new() -> Self {
        Self { session: session(), parent: parent_id() }
    }

    /// Returns the session while the parent process is the same. The parent ends when the session ends.
    pub(crate) fn session(self) -> Option<Session> {
        self.session.filter(|_| parent_id() == self.parent)
    }
}

impl Session {
    /// Reads the four words of the variable: address and port of the client, then of this host. A link-local address
    /// can name its interface.
    fn read(connection: &str) -> Option<Self> {
        let mut words = connection.split_whitespace();
        let session = Self::of_host(words.next()?)?;
        let port = words.nth(2).and_then(|port| port.parse().ok()).unwrap_or(SSH_PORT);
        Some(Self { port, ..session })
    }

    /// Returns the session that started a process.
    fn of_process(process: u32) -> Option<Self> {
        Self::read(&processes::variable(process, VARIABLE)?)
    }

    /// Returns this session with the port that the processes of its server have.
    pub(super) fn with_port(self, server: u32) -> Self {
        let peer = self.peer.to_canonical();
        let of_server = processes::descendants(server).find_map(Self::of_process);
        of_server.filter(|found| found.peer.to_canonical() == peer).unwrap_or(self)
    }

    /// Returns a session from this address to the usual port. Returns None if `host` is a name.
    pub(super) fn of_host(host: &str) -> Option<Self> {
        let peer = host.split('%').next()?.parse().ok()?;
        Some(Self { peer, port: SSH_PORT })
    }

    /// Returns the address of the client as a prefix.
    pub(crate) fn prefix(self) -> Prefix {
        Prefix::host(self.peer.to_canonical())
    }

    /// Returns what the rules do with the session's packets, and with packets that open another session.
    pub(crate) fn standing(self, tables: &Tables) -> Result<[Standing; 2], Error> {
        let services = Services::read(tables)?;
        let of = |classes| {
            let (spec, is_lasting) = resolve::of_address_with_end(tables, &self.prefix(), classes)?;
            Ok::<_, Error>(Standing { spec, is_lasting })
        };
        let open = services.classes(services.of_port(Transport::Tcp, self.port));
        Ok([of(open)?, of(services.classes_of_new(self.port))?])
    }
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
