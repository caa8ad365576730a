//! Tells the operator of a problem once, and of its end.

use ratelimit_base::notify::journal::{self, Level};

/// Names in a line of the log.
const NAMES: usize = 5;

/// Returns the first few names of a line, and how many others there are.
pub(in crate::serve) fn few_of(names: &[String]) -> String {
    let few = names.get(..NAMES).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => few,
        others => format!("{few} and {others} others"),
    }
}

/// A problem that lasts for a while.
#[derive(Debug, Default)]
pub(in crate::serve) struct Problem {
    is_there: bool,
}

impl Problem {
    /// Returns whether it lasts.
    pub(in crate::serve) fn lasts(&self) -> bool {
        self.is_there
    }

    /// Tells of it, unless that was done.
    pub(in crate::serve) fn is_there(&mut self, text: impl FnOnce() -> String) {
        if !self.is_there {
            journal::say(Level::Warning, &format!("fleet: {}", text()));
        }
        self.is_there = true;
    }

    /// Tells of its end.
    pub(in crate::serve) fn is_gone(&mut self, text: &str) {
        if self.is_there {
            journal::say(Level::Info, &format!("fleet: {text}"));
        }
        self.is_there = false;
    }
}
