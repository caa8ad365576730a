//! Tells the operator of a problem once, and of its end.

use std::path::{Path, PathBuf};

use ratelimit_base::notify::journal::{Level, say};

use crate::controller::events::changes::record_of_daemon;

/// What is wrong now.
pub(super) struct Told {
    pins: PathBuf,
    problem: Option<String>,
}

impl Told {
    /// Nothing is wrong yet.
    pub(super) fn of(pins: &Path) -> Self {
        Self { pins: pins.to_owned(), problem: None }
    }

    /// Notes a failure. The operator hears of the first in a row, and of what follows.
    pub(super) fn fail(&mut self, problem: String, follows: &str) {
        if self.problem.is_none() {
            self.tell(Level::Warning, &format!("{problem}{follows}"));
        }
        self.problem = Some(problem);
    }

    /// Notes a success.
    pub(super) fn succeed(&mut self, text: &str) {
        if self.problem.take().is_some() {
            self.tell(Level::Info, text);
        }
    }

    /// Tells the operator of something else.
    pub(super) fn tell(&self, level: Level, text: &str) {
        let text = format!("crowdsec: {text}");
        say(level, &text);
        record_of_daemon(&self.pins, &text);
    }

    /// Returns what is wrong now.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}
