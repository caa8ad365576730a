//! Events in the daemon's log: all of them in the journal, and bans, changes, the admission budget and SYN cookies in any
//! other log.
//!
//! A log that nobody reads must not stop the daemon, and a flood of bans must not fill a disk.

use std::{
    io::{self, Write as _},
    path::Path,
};

use jiff::Timestamp;
use ratelimit_base::notify::journal::{self, Level, say};

use crate::controller::events::{
    changes::DAEMON,
    notice::{Notice, What},
    watcher::Watcher,
};

/// The most events at once in a log that is no journal.
const MOST: usize = 100;

/// The events that are added to that in each step, half a second long: at most 15 MB a day.
const PER_STEP: usize = 1;

/// The log.
pub(super) struct Log {
    watcher: Watcher,
    is_journal: bool,
    /// Events that may be written now.
    allowed: usize,
    /// Events that were not written.
    left_out: u64,
}

impl Log {
    /// Follows the instance from now on.
    pub(super) fn of(pins: &Path) -> Self {
        Self { watcher: Watcher::new(pins), is_journal: journal::is_journal(), allowed: MOST, left_out: 0 }
    }

    /// Writes what is new.
    pub(super) fn write(&mut self) {
        // Without an instance there are no events.
        let notices = self.watcher.news().unwrap_or_default();
        // The daemon has a message of its own about what it has done.
        let others = notices.iter().filter(|notice| !matches!(&notice.what, What::Changed { by, .. } if by == DAEMON));
        if self.is_journal {
            return others.for_each(|notice| say(level(&notice.what), &notice.what.to_string()));
        }
        let wanted: Vec<_> = others.filter(|notice| is_for_any_log(&notice.what)).collect();
        self.allowed = (self.allowed + PER_STEP).min(MOST);
        let mut is_quiet = true;
        for notice in wanted {
            is_quiet = false;
            if self.allowed == 0 || !journal::is_ready() {
                self.left_out += 1;
                continue;
            }
            self.say_what_is_left_out();
            self.allowed -= 1;
            line(notice);
        }
        if is_quiet && journal::is_ready() {
            self.say_what_is_left_out();
        }
    }

    fn say_what_is_left_out(&mut self) {
        if self.left_out > 0 {
            let count = std::mem::take(&mut self.left_out);
            line(&Notice { at: Timestamp::now(), what: What::LeftOut { count } });
        }
    }
}

fn level(what: &What) -> Level {
    match what {
        What::Ended { .. }
        | What::Unbanned { .. }
        | What::AdmissionRecovered { .. }
        | What::CookiesEnded { .. }
        | What::Changed { .. } => Level::Info,
        _ => Level::Warning,
    }
}

const fn is_for_any_log(what: &What) -> bool {
    !matches!(what, What::Throttled { .. } | What::Ended { .. })
}

/// Writes a line with the time. A failure does not matter.
fn line(notice: &Notice) {
    let _ = io::stderr().write_all(format!("{notice}\n").as_bytes());
}
