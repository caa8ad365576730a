//! Lines for the system's log, of a process that has no standard error any more.

use std::{os::unix::net::UnixDatagram, path::Path};

use crate::controller::notify::journal::Level;

/// Where the system's log listens (syslog(3)).
const SOCKET: &str = "/dev/log";

/// The facility of what runs by itself, by its number in syslog(3).
const DAEMON: u8 = 3;

/// Writes this after the name of the program. Nobody may be listening, which is no reason to fail.
pub(crate) fn say(level: Level, text: &str) {
    say_at(Path::new(SOCKET), level, text);
}

fn say_at(socket: &Path, level: Level, text: &str) {
    let line = format!("<{}>ratelimit[{}]: {text}", (DAEMON << 3) | level as u8, std::process::id());
    // One that is full is not waited for.
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
        // Nobody listens yet.
        say_at(&path, Level::Error, "unheard");
        let log = UnixDatagram::bind(&path).unwrap();
        say_at(&path, Level::Error, "it could not be taken back");
        let mut bytes = [0; 1_024];
        let length = log.recv(&mut bytes).unwrap();
        std::fs::remove_file(&path).unwrap();
        let expected = format!("<27>ratelimit[{}]: it could not be taken back", std::process::id());
        assert_eq!(std::str::from_utf8(&bytes[..length]).unwrap(), expected);
    }
}
