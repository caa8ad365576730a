//! Writes the state file now and then, on a thread of its own.

use std::{
    future::pending,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep_until, timeout},
};

use super::memory;
use crate::{
    config::daemon::state::StateFile,
    controller::{
        notify::journal::{Level, say},
        state::{self, StateError},
    },
};

/// The time that the last snapshot may take.
const LAST: Duration = Duration::from_secs(10);

/// The state file of the configuration, and the snapshot that is being written.
pub(super) struct Saver {
    pins: PathBuf,
    file: Option<StateFile>,
    /// The time of the next snapshot.
    due: Instant,
    writing: Option<JoinHandle<Result<usize, StateError>>>,
    /// Whether the last snapshot failed, and whether it left debts out. Each change is reported once.
    has_failed: bool,
    has_left_out: bool,
}

impl Saver {
    /// Writes nothing yet.
    pub(super) fn of(pins: &Path) -> Self {
        let (pins, due) = (pins.to_owned(), Instant::now());
        Self { pins, file: None, due, writing: None, has_failed: false, has_left_out: false }
    }

    /// Writes this file from now on, or none. The first snapshot is due after an interval.
    pub(super) fn follow(&mut self, file: Option<&StateFile>) {
        if self.file.as_ref() != file {
            self.file = file.cloned();
            self.due = Instant::now() + self.interval();
        }
    }

    /// Waits until something is to be done, and does it. Without a file, waits forever.
    pub(super) async fn step(&mut self) {
        if let Some(writing) = &mut self.writing {
            let outcome = writing.await;
            self.writing = None;
            self.report(outcome.unwrap_or(Err(StateError::Thread)));
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
            if self.writing.is_some() {
                self.step().await;
            }
            self.begin();
            if self.writing.is_some() {
                self.step().await;
            }
        };
        if timeout(LAST, last).await.is_err() {
            say(Level::Warning, "the state was not written: it took too long");
        }
    }

    fn begin(&mut self) {
        let Some(StateFile { path, .. }) = self.file.clone() else { return };
        let pins = self.pins.clone();
        self.writing = Some(spawn_blocking(move || {
            let outcome = state::save(&pins, &path);
            memory::release();
            outcome
        }));
    }

    fn interval(&self) -> Duration {
        self.file.as_ref().map_or(Duration::ZERO, |file| file.interval)
    }

    /// Reports a failure, and that there is none any more.
    fn report(&mut self, outcome: Result<usize, StateError>) {
        let had_failed = self.has_failed;
        self.has_failed = outcome.is_err();
        match outcome {
            Err(error) if !had_failed => {
                let text = "the state is not written, so a reboot forgets debts and bans";
                say(Level::Warning, &format!("{text}: {error}"));
            }
            Ok(left_out) => {
                if had_failed {
                    say(Level::Info, "the state is written again");
                }
                if left_out != 0 && !self.has_left_out {
                    say(Level::Warning, &format!("the state has the longest debts only: {left_out} are left out"));
                }
                self.has_left_out = left_out != 0;
            }
            Err(_) => {}
        }
    }
}
