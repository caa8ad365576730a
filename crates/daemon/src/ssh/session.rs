//! SSH sessions, and how a process finds its own.

use std::{net::IpAddr, os::unix::process::parent_id, sync::OnceLock};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{class::Classes, service::Transport},
    rules::rule::NEVER,
};
use ratelimit_dataplane::{
    Error,
    rules::{resolve, services::Services},
    sys::{ancestors, host},
    tables::open::Tables,
};
use serde::{Deserialize, Serialize};

use super::standing::Standing;

/// The usual port of SSH.
pub(super) const SSH_PORT: u16 = 22;

/// A remote session on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The address of the client.
    pub peer: IpAddr,
    /// The port on this host.
    pub port: u16,
}

/// Returns the SSH session of this process. `sudo` removes the variable, so parent processes are searched too, once.
pub fn session() -> Option<Session> {
    static FOUND: OnceLock<Option<Session>> = OnceLock::new();
    let own = || std::env::var("SSH_CONNECTION").ok();
    *FOUND.get_or_init(|| own().or_else(inherited).as_deref().and_then(Session::read))
}

/// The session that started a process, which may outlive the session.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    session: Option<Session>,
    parent: u32,
}

impl Origin {
    /// Returns the origin of this process. Must be called at its start.
    pub fn of_this_process() -> Self {
        Self { session: session(), parent: parent_id() }
    }

    /// Returns the session while the parent process is the same. The parent ends when the session ends.
    pub fn session(self) -> Option<Session> {
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

    /// Returns a session from this address to the usual port. Returns None if `host` is a name.
    pub(super) fn of_host(host: &str) -> Option<Self> {
        let peer = host.split('%').next()?.parse().ok()?;
        Some(Self { peer, port: SSH_PORT })
    }

    /// Returns this session on another port.
    pub(super) fn on_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Returns the address of the client as a prefix.
    pub fn prefix(self) -> Prefix {
        Prefix::host(self.peer.to_canonical())
    }

    /// Returns what the rules do with the session's packets, and with packets that open another session.
    pub fn standing(self, tables: &Tables) -> Result<[Standing; 2], Error> {
        let now = host::now();
        let of = |classes| Ok::<_, Error>(self.standing_at(tables, classes, now)?.0);
        let [open, new] = self.classes(tables)?;
        Ok([of(open)?, of(new)?])
    }

    /// Returns what the rules do with packets of these classes at `now`, in nanoseconds, and when that can change.
    pub(super) fn standing_at(self, tables: &Tables, classes: Classes, now: u64) -> Result<(Standing, u64), Error> {
        let (spec, ends) = resolve::of_address_at(tables, &self.prefix(), classes, now)?;
        Ok((Standing { spec, is_lasting: ends == NEVER }, ends))
    }

    /// Returns the classes of the session's packets, and of packets that open another session.
    pub(super) fn classes(self, tables: &Tables) -> Result<[Classes; 2], Error> {
        let services = Services::read(tables)?;
        let open = services.classes(services.of_port(Transport::Tcp, self.port));
        Ok([open, services.classes_of_new(self.port)])
    }
}

fn inherited() -> Option<String> {
    ancestors::of_this().map_while(|process| ancestors::read(&format!("/proc/{process}/environ"))).find_map(
        |environment| {
            let found =
                environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"SSH_CONNECTION="))?;
            (!found.is_empty()).then(|| String::from_utf8_lossy(found).into_owned())
        },
    )
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
