//! Reads metrics.
//!
//! One reading runs at a time, and then pauses as long as it took. An instance that cannot be read is tried twice, and
//! then reported as `ratelimit_instance_up 0`.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Instant, SystemTime},
};

use ratelimit_dataplane::{Error, instance::read_only::View};
use tokio::sync::{Semaphore, oneshot};

use super::families::{
    self, Reloads, Reported,
    page::{Family, Page},
};
use crate::{
    config::listed::Listed,
    controller::{crowdsec, downloads, fleet, stops},
};

/// Reads metrics.
pub(super) struct Scraper {
    pins: PathBuf,
    shown: Shown,
    started: SystemTime,
    daemon: Mutex<Daemon>,
    /// Locked by one reading at a time.
    reported: Mutex<Reported>,
    /// Admits one reading at a time.
    turn: Arc<Semaphore>,
}

/// What other parts of the daemon show.
#[derive(Default)]
pub struct Shown {
    pub fleet: fleet::service::Shown,
    pub stops: stops::Shown,
    pub crowdsec: crowdsec::Shown,
    pub lists: downloads::Shown,
}

/// Values that the daemon's main thread sets.
#[derive(Debug, Clone, Default)]
struct Daemon {
    reloads: Reloads,
    named_sources: usize,
    listed: Listed,
}

impl Scraper {
    pub(super) fn new(pins: &Path, shown: Shown) -> Self {
        Self {
            pins: pins.to_owned(),
            shown,
            started: SystemTime::now(),
            daemon: Mutex::default(),
            reported: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Sets the number of sources with metrics of their own, and what the file lists.
    pub(super) fn begin_file(&self, named_sources: usize, listed: Listed) {
        let mut daemon = self.daemon();
        (daemon.named_sources, daemon.listed) = (named_sources, listed);
    }

    /// Records that the file was applied at the start.
    pub(super) fn begin(&self) {
        self.daemon().reloads.begin();
    }

    /// Records that the file was read again, and whether it was applied.
    pub(super) fn record_reload(&self, is_good: bool) {
        self.daemon().reloads.record(is_good);
    }

    /// Waits for its turn, and reads the metrics. Returns None if the reading thread failed.
    pub(super) async fn page(self: Arc<Self>) -> Option<Page> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let (send, receive) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let begin = Instant::now();
            let page = self.read(begin);
            // The requester may have closed the connection.
            let _ = send.send(page);
            // The pause limits permanent requests to half a CPU.
            thread::sleep(begin.elapsed());
            drop(turn);
        });
        receive.await.ok()
    }

    fn read(&self, begin: Instant) -> Page {
        let daemon = self.daemon().clone();
        let mut page = Page::default();
        page.extend(families::of_build());
        page.extend(daemon.reloads.families());
        let fleet = self.shown.fleet.lock().unwrap_or_else(PoisonError::into_inner).clone();
        page.extend(fleet.iter().flat_map(families::of_fleet));
        let stops = self.shown.stops.lock().unwrap_or_else(PoisonError::into_inner).clone();
        page.extend(families::of_stops(&stops));
        page.extend(families::of_remote(&self.shown.lists.lists()));
        #[cfg(feature = "crowdsec")]
        {
            let crowdsec = self.shown.crowdsec.lock().unwrap_or_else(PoisonError::into_inner).clone();
            page.extend(crowdsec.iter().flat_map(families::of_crowdsec));
        }
        // A command may be replacing the instance, so a second try follows a failure.
        let instance = self.instance(&daemon).or_else(|_| self.instance(&daemon));
        page.extend([
            Family::gauge("ratelimit_instance_up", "1 if the instance exists and could be read.").of(instance.is_ok())
        ]);
        match instance {
            Ok(families) => page.extend(families),
            Err(error) => page.miss(error.to_string()),
        }
        page.extend([Family::gauge("ratelimit_scrape_duration_seconds", "Time that this reading took.")
            .of(begin.elapsed().as_secs_f64())]);
        page.extend(families::of_process(self.started));
        page
    }

    fn instance(&self, daemon: &Daemon) -> Result<Vec<Family>, Error> {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        families::of_instance(&View::open(&self.pins)?, &daemon.listed, daemon.named_sources, &mut reported)
    }

    fn daemon(&self) -> MutexGuard<'_, Daemon> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
