//! Lines for the system log, from a process without standard error.

use std::{os::unix::net::UnixDatagram, path::Path};

use crate::notify::journal::Level;

/// The socket of the system log (syslog(3)).
const SOCKET: &str = "/dev/log";

/// The facility of daemons, by its number in syslog(3).
const DAEMON: u8 = 3;

/// Writes a line after the name of the program. A failure is ignored.
pub fn say(level: Level, text: &str) {
    say_at(Path::new(SOCKET), level, text);
}

fn say_at(socket: &Path, level: Level, text: &str) {
    let line = format!("<{}>ratelimit[{}]: {text}", (DAEMON << 3) | level as u8, std::process::id());
    // A full socket must not block.
    let sent = UnixDatagram::unbound().and_then(|datagram| {
        datagram.set_nonblocking(true)?;
        datagram.send_to(line.as_bytes(), socket)
    });
    drop(sent);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_priority_and_its_process() {
        let path = std::env::temp_dir().join(format!("ratelimit-log-{}", std::process::id()));
        // The socket does not exist yet.
        say_at(&path, Level::Error, "unheard");
        let log = UnixDatagram::bind(&path).unwrap();
        say_at(&path, Level::Error, "not undone");
        let mut bytes = [0; 1_024];
        let length = log.recv(&mut bytes).unwrap();
        std::fs::remove_file(&path).unwrap();
        let expected = format!("<27>ratelimit[{}]: not undone", std::process::id());
        assert_eq!(std::str::from_utf8(&bytes[..length]).unwrap(), expected);
    }
}
