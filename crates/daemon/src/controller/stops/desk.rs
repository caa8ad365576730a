//! Where the fleet tells and hears of limits.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use ratelimit_protocol::stops::Stopped;
use tokio::sync::Notify;

use super::{judge::Judge, ledger::Ledger};

/// Where the fleet tells and hears of limits. Copies are the same.
#[derive(Clone)]
pub struct Desk {
    judge: Arc<Judge>,
    begun: Arc<Notify>,
}

impl Desk {
    pub(super) fn of(judge: Judge) -> Self {
        Self { judge: Arc::new(judge), begun: Arc::default() }
    }

    pub(super) fn judge(&self) -> Arc<Judge> {
        Arc::clone(&self.judge)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.judge.lock()
    }

    /// Notes that limits have begun.
    pub(super) fn note(&self) {
        self.begun.notify_one();
    }

    /// Waits until limits have begun.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Returns the limits in force that applications of this host have asked for, and how long they last.
    pub fn own(&self) -> Vec<(Stopped, Duration)> {
        self.lock().in_force.own()
    }

    /// Hears that another host limits a client for this time. The limit begins here too, unless this host spares the
    /// client.
    pub fn hear(&self, stopped: Stopped, host: &str, left: Duration) {
        self.judge.hear(stopped, host, left);
    }
}
