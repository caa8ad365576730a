//! Lines on standard error. If that is the journal, each line has its priority (sd-daemon(3)).

use std::{
    env,
    io::{self, Write as _},
};

use rustix::fs::fstat;

/// The priority of a line, by the numbers of syslog(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A request failed.
    Error = 3,
    /// A request was done, but a part has no effect.
    Warning = 4,
    /// A request was done.
    Info = 6,
}

/// Prints a line after the name of the program.
pub fn say(level: Level, text: &str) {
    let prefix = if is_journal() { format!("<{}>", level as u8) } else { String::new() };
    let lines: String = format!("ratelimit: {text}").lines().map(|line| format!("{prefix}{line}\n")).collect();
    // One write keeps the lines together. A failure does not matter.
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Returns whether standard error is the journal stream that the service manager has named. A child process can inherit
/// the name, but have another file there.
pub fn is_journal() -> bool {
    let named = env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(io::stderr()).is_ok_and(|file| named == format!("{}:{}", file.st_dev, file.st_ino))
}
