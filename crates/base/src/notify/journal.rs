//! Lines on standard error. If that is the journal, each line has its priority (sd-daemon(3)).

use std::{
    env,
    io::{self, Write as _},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::fstat,
};

use crate::text::pasted;

/// Whether lines that cannot be written at once are left out.
static NEVER_WAITS: AtomicBool = AtomicBool::new(false);

/// Whether lines are those of a log, which have their time.
static IS_LOG: AtomicBool = AtomicBool::new(false);

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

/// From now on, each line has its time, as in a log. The journal has that itself.
pub fn begin_log() {
    IS_LOG.store(true, Ordering::Relaxed);
}

/// From now on, leaves out lines that cannot be written at once: a log that nobody reads must not stop a daemon.
pub fn never_wait() {
    NEVER_WAITS.store(true, Ordering::Relaxed);
}

/// Returns whether a line can be written at once.
pub fn is_ready() -> bool {
    takes_line(&io::stderr())
}

/// Returns whether a stream takes a line at once. A pipe does as long as a page of it is free.
pub fn takes_line(stream: &impl AsFd) -> bool {
    let mut ready = [PollFd::new(stream, PollFlags::OUT)];
    poll(&mut ready, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Prints a line after the name of the program.
pub fn say(level: Level, text: &str) {
    if NEVER_WAITS.load(Ordering::Relaxed) && !is_ready() {
        return;
    }
    let prefix = match (is_journal(), IS_LOG.load(Ordering::Relaxed)) {
        (true, _) => format!("<{}>", level as u8),
        (false, true) => format!("{:.0} ", Timestamp::now()),
        (false, false) => String::new(),
    };
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
