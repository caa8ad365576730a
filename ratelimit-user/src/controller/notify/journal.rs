//! Lines on standard error. The journal is told how grave each is (sd-daemon(3)); everybody else sees the line alone.

use std::{
    env,
    io::{self, Write as _},
};

use rustix::fs::fstat;

/// How grave a line is, by the numbers of syslog(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something was asked for and not done.
    Error = 3,
    /// Done, but not all of it has an effect.
    Warning = 4,
    /// What was done.
    Info = 6,
}

/// Prints this after the name of the program.
pub fn say(level: Level, text: &str) {
    let prefix = if is_journal() { format!("<{}>", level as u8) } else { String::new() };
    let lines: String = format!("ratelimit: {text}").lines().map(|line| format!("{prefix}{line}\n")).collect();
    // Nobody may be reading, which is no reason to end. In one piece, so that others' lines do not come between.
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Whether standard error is the stream to the journal that the service manager has named. Whoever has inherited the name alone has another file there.
pub fn is_journal() -> bool {
    let named = env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(io::stderr()).is_ok_and(|file| named == format!("{}:{}", file.st_dev, file.st_ino))
}
