//! Writes the state file now and then, on a thread of its own.

use std::{
    future::pending,
    path::{Path, PathBuf},
    time::Duration,
};

use ratelimit_base::notify::journal::{Level, say};
use ratelimit_dataplane::debts::Saved;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::memory;
use crate::{
    config::daemon::state::StateFile,
    controller::state::{self, StateError},
};

/// The time that the last snapshot may take.
const LAST: Duration = Duration::from_secs(10);

/// The time after which a snapshot that is not written is a failure.
const SLOW: Duration = Duration::from_secs(30);

/// A time that never comes.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// Returns the debts and bans of the state file. A file that cannot be used is reported, and the daemon starts without it.
pub(super) fn load(file: &StateFile) -> Saved {
    state::load(&file.path).unwrap_or_else(|error| {
        say(Level::Warning, &format!("starting without the state: {error}"));
        Saved::default()
    })
}

/// A snapshot that is being written.
struct Writing {
    path: PathBuf,
    task: JoinHandle<Result<Option<usize>, StateError>>,
    /// When to report that it takes too long.
    late: Instant,
}

/// The state file of the configuration, and the snapshot that is being written.
pub(super) struct Saver {
    pins: PathBuf,
    file: Option<StateFile>,
    /// The time of the next snapshot.
    due: Instant,
    writing: Option<Writing>,
    /// Why the last snapshot of this file failed, and whether it left debts out. Each change is reported once.
    failure: Option<String>,
    has_left_out: bool,
}

impl Saver {
    /// Writes nothing yet.
    pub(super) fn of(pins: &Path) -> Self {
        let (pins, due) = (pins.to_owned(), Instant::now());
        Self { pins, file: None, due, writing: None, failure: None, has_left_out: false }
    }

    /// Writes this file from now on, or none. The first snapshot is due after an interval.
    pub(super) fn follow(&mut self, file: Option<&StateFile>) {
        if self.file.as_ref() != file {
            if self.path() != file.map(|file| file.path.as_path()) {
                (self.failure, self.has_left_out) = (None, false);
            }
            self.file = file.cloned();
            self.due = Instant::now() + self.interval();
        }
    }

    /// Waits until something is to be done, and does it. Without a file, waits forever.
    pub(super) async fn step(&mut self) {
        if let Some(Writing { path, task, late }) = &mut self.writing {
            let (path, outcome) = (path.clone(), timeout_at(*late, task).await);
            let outcome = if let Ok(outcome) = outcome {
                self.writing = None;
                outcome.unwrap_or(Err(StateError::Thread))
            } else {
                *late += NEVER;
                Err(StateError::Slow(SLOW))
            };
            // A reload may have named another file meanwhile.
            if self.path() == Some(&path) {
                self.report(outcome);
            }
        } else if self.file.is_some() {
            sleep_until(self.due).await;
            self.due = Instant::now() + self.interval();
            self.begin();
        } else {
            pending::<()>().await;
        }
    }

    /// Writes the last snapshot, unless that takes too long.
    pub(super) async fn end(&mut self) {
        let last = async {
            while self.writing.is_some() {
                self.step().await;
            }
            self.begin();
            while self.writing.is_some() {
                self.step().await;
            }
        };
        if timeout(LAST, last).await.is_err() {
            say(Level::Warning, "the state was not written: it took too long");
        }
    }

    fn begin(&mut self) {
        let Some(StateFile { path, .. }) = self.file.clone() else { return };
        let (pins, file) = (self.pins.clone(), path.clone());
        let task = spawn_blocking(move || {
            let outcome = state::save(&pins, &file);
            memory::release();
            outcome
        });
        self.writing = Some(Writing { path, task, late: Instant::now() + SLOW });
    }

    /// Returns why the state was not written last. None if it was.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    fn interval(&self) -> Duration {
        self.file.as_ref().map_or(Duration::ZERO, |file| file.interval)
    }

    /// Reports a failure, and that there is none any more. Without an instance, nothing was written, and nothing changes.
    fn report(&mut self, outcome: Result<Option<usize>, StateError>) {
        match outcome {
            Err(error) => {
                let text = format!("the state is not written, so a reboot forgets debts and bans: {error}");
                if self.failure.is_none() {
                    say(Level::Warning, &text);
                }
                self.failure = Some(text);
            }
            Ok(Some(left_out)) => {
                if self.failure.is_some() {
                    say(Level::Info, "the state is written again");
                }
                if left_out != 0 && !self.has_left_out {
                    say(Level::Warning, &format!("the state has the longest debts only: {left_out} are left out"));
                }
                (self.failure, self.has_left_out) = (None, left_out != 0);
            }
            Ok(None) => {}
        }
    }
}
