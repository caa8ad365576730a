//! Tells the operator of a problem once, and of its end.

use std::path::{Path, PathBuf};

use ratelimit_base::notify::journal::{Level, say};

use crate::controller::events::changes::record_of_daemon;

/// The state of one problem.
pub(super) struct Once {
    pins: PathBuf,
    /// What is wrong now.
    problem: Option<String>,
    /// Failures since the last success.
    failures: u32,
    /// Failures before the operator hears of them.
    patience: u32,
}

impl Once {
    /// Tells of a problem that has shown itself this many times in a row.
    pub(super) fn after(patience: u32, pins: &Path) -> Self {
        Self { pins: pins.to_owned(), problem: None, failures: 0, patience }
    }

    /// Notes a failure.
    pub(super) fn fail(&mut self, problem: impl FnOnce() -> String) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.patience && self.problem.is_none() {
            let text = problem();
            tell(&self.pins, Level::Warning, &text);
            self.problem = Some(text);
        }
    }

    /// Notes a success.
    pub(super) fn succeed(&mut self, text: &str) {
        self.failures = 0;
        if self.problem.take().is_some() {
            tell(&self.pins, Level::Info, text);
        }
    }

    /// Tells the operator of something else.
    pub(super) fn tell(&self, level: Level, text: &str) {
        tell(&self.pins, level, text);
    }

    /// Returns what is wrong now.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// Tells the operator.
fn tell(pins: &Path, level: Level, text: &str) {
    let text = format!("fleet: {text}");
    say(level, &text);
    record_of_daemon(pins, &text);
}
