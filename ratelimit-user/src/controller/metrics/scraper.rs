//! Reads the numbers, one reading at a time.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Instant, SystemTime},
};

use tokio::sync::{Semaphore, oneshot};

use super::{
    families::{self, Reloads},
    page::{Family, Page},
};
use crate::dataplane::{Error, instance::read_only::View};

/// What reads them.
pub(super) struct Scraper {
    pins: PathBuf,
    started: SystemTime,
    daemon: Mutex<Daemon>,
    /// One reading at a time.
    turn: Arc<Semaphore>,
}

/// What the daemon's own thread tells.
#[derive(Debug, Clone, Copy, Default)]
struct Daemon {
    reloads: Reloads,
    named_sources: usize,
}

impl Scraper {
    pub(super) fn new(pins: &Path) -> Self {
        Self {
            pins: pins.to_owned(),
            started: SystemTime::now(),
            daemon: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// How many sources to list by name.
    pub(super) fn name_sources(&self, count: usize) {
        self.daemon().named_sources = count;
    }

    /// Notes that the file was put in force at the start.
    pub(super) fn begin(&self) {
        self.daemon().reloads.begin();
    }

    /// Notes that the file was read again, and whether it is in force.
    pub(super) fn note_reload(&self, is_good: bool) {
        self.daemon().reloads.note(is_good);
    }

    /// Reads them, when it is this one's turn. Nothing if reading has failed altogether.
    pub(super) async fn page(self: Arc<Self>) -> Option<Page> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let (send, receive) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let begin = Instant::now();
            let page = self.read(begin);
            // Who has asked may have gone away.
            let _ = send.send(page);
            // Whoever asks all the time keeps half a CPU busy, and no more.
            thread::sleep(begin.elapsed());
            drop(turn);
        });
        receive.await.ok()
    }

    fn read(&self, begin: Instant) -> Page {
        let daemon = *self.daemon();
        let mut page = Page::default();
        page.extend(families::of_build());
        page.extend(daemon.reloads.families());
        // A command may be just making what was asked for.
        let instance = self.instance(daemon.named_sources).or_else(|_| self.instance(daemon.named_sources));
        page.extend([Family::gauge("ratelimit_instance_up", "Whether the instance is there and could be read.")
            .of(instance.is_ok())]);
        match instance {
            Ok(families) => page.extend(families),
            Err(error) => page.miss(error.to_string()),
        }
        page.extend([Family::gauge("ratelimit_scrape_duration_seconds", "How long reading all of this took.")
            .of(begin.elapsed().as_secs_f64())]);
        page.extend(families::of_process(self.started));
        page
    }

    fn instance(&self, named_sources: usize) -> Result<Vec<Family>, Error> {
        families::of_instance(&View::open(&self.pins)?, named_sources)
    }

    fn daemon(&self) -> MutexGuard<'_, Daemon> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
