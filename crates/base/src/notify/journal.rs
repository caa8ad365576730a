//! Lines on standard error. If that is the journal, each line has its priority (sd-daemon(3)).

use std::{
    env,
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::fstat,
};

use crate::text::pasted;

/// Whether lines that cannot be written at once are left out.
static NEVER_WAITS: AtomicBool = AtomicBool::new(false);

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

/// From now on, leaves out lines that cannot be written at once: a log that nobody reads must not stop a daemon.
pub fn never_wait() {
    NEVER_WAITS.store(true, Ordering::Relaxed);
}

/// Returns whether a line can be written at once. A pipe is ready as long as a page of it is free.
pub fn is_ready() -> bool {
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut ready, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Prints a line after the name of the program.
pub fn say(level: Level, text: &str) {
    if NEVER_WAITS.load(Ordering::Relaxed) && !is_ready() {
        return;
    }
    let prefix = if is_journal() { format!("<{}>", level as u8) } else { String::new() };
    let text = pasted::text(text);
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
