//! The remote sessions that systemd-logind knows.
//!
//! logind lists only sessions of logged-in users. So a client that merely connects cannot prevent a deny rule.

use std::{fs, net::IpAddr, path::Path};

use ratelimit_dataplane::{Error, sys::netlink};

use super::{server, session::Session};

/// The folder with one file per session. sd_session_get_remote_host(3) reads it too.
const SESSIONS: &str = "/run/systemd/sessions";

/// Returns all sessions that are not closing, on each port of the SSH server. Returns none if there is no logind.
pub fn sessions() -> Vec<Session> {
    let files = fs::read_dir(SESSIONS).into_iter().flatten().flatten();
    // A file that cannot be read belongs to a session that has just ended. Other entries are pipes.
    let texts = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
    let found: Vec<Session> = texts.filter_map(|file| read(&fs::read_to_string(file.path()).ok()?)).collect();
    // Without a session, the server's files are not read.
    let ports = if found.is_empty() { Vec::new() } else { server::ports() };
    found.iter().flat_map(|session| ports.iter().map(|port| session.on_port(*port))).collect()
}

/// Returns the addresses with open connections to these ports, if there is no logind to tell who has logged in. Anybody
/// can open one.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel cannot tell.
pub fn peers(ports: &[u16]) -> Result<Vec<IpAddr>, Error> {
    if Path::new(SESSIONS).is_dir() {
        return Ok(Vec::new());
    }
    let each = ports.iter().map(|port| netlink::peers::of(*port)).collect::<Result<Vec<_>, _>>()?;
    Ok(each.concat())
}

/// Returns the session in a file of `KEY=VALUE` lines, if it is remote and its host is an address.
fn read(text: &str) -> Option<Session> {
    let value = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(value.trim_matches('"'))
    };
    let is_open = value("REMOTE") == Some("1") && value("STATE") != Some("closing");
    Session::of_host(value("REMOTE_HOST").filter(|_| is_open)?)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn remote_sessions_by_address_that_are_not_ending() {
        let file = |remote: &str, host: &str, state: &str| {
            let text = format!("# Private.\nUID=0\nACTIVE=1\nSTATE={state}\nREMOTE={remote}\n{host}SERVICE=sshd\n");
            read(&text).map(|session| session.prefix().to_string())
        };
        let known = |address: &str| Some(address.to_owned());
        assert_eq!(file("1", "REMOTE_HOST=203.0.113.7\n", "active"), known("203.0.113.7"));
        assert_eq!(file("1", "REMOTE_HOST=\"fe80::1%eth0\"\n", "online"), known("fe80::1"));
        assert_eq!(file("1", "REMOTE_HOST=203.0.113.7\n", "closing"), None);
        assert_eq!(file("0", "REMOTE_HOST=203.0.113.7\n", "active"), None);
        assert_eq!(file("1", "REMOTE_HOST=host.example\n", "active"), None);
        assert_eq!(file("1", "", "active"), None);
        assert_eq!(read("REMOTE"), None);
    }
}
