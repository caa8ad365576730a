//! What all pages share.

use std::{convert::Infallible, sync::Arc, time::Instant};

use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    history::{History, STEP},
    packets::Packets,
    visit::{Form, Gate, Visitor},
};
use crate::{
    config::requests::console::Console as Settings,
    serve::{access::Peer, rules::Book, service::Service},
};

/// Previews, changes and readers of the log at a time. Further ones wait.
const WORK: usize = 2;

/// What all pages share.
pub(in crate::serve) struct Console {
    pub(super) service: Arc<Service>,
    pub(super) book: Arc<Book>,
    pub(super) gate: Gate,
    pub(super) history: History,
    /// Where the daemon shows packets.
    pub(super) packets: Option<Packets>,
    work: Arc<Semaphore>,
}

/// A call of someone who has signed in.
pub(super) struct Call {
    pub(super) visitor: Visitor,
    pub(super) query: Form,
    pub(super) form: Form,
    pub(super) peer: Option<Peer>,
}

impl Console {
    pub(in crate::serve) fn new(
        service: &Arc<Service>,
        book: &Arc<Book>,
        settings: Settings,
        is_encrypted: bool,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            service: Arc::clone(service),
            book: Arc::clone(book),
            packets: settings.packets.clone().map(Packets),
            gate: Gate::new(settings, is_encrypted)?,
            history: History::default(),
            work: Arc::new(Semaphore::new(WORK)),
        })
    }

    /// Reads the counts again and again, for plots.
    pub(in crate::serve) async fn watch(self: Arc<Self>) -> Infallible {
        let mut ticks = interval(STEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.history.take(&self.service.limiter(), self.service.counts.decided());
            if let Some(packets) = &self.packets {
                let counts = packets.counts().await;
                self.history.take_packets(counts, Instant::now());
            }
        }
    }

    /// Does work that takes a while, and goes on if its caller does not wait. None if it has failed.
    pub(super) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.work).acquire_owned().await.ok()?;
        let console = Arc::clone(self);
        let done = spawn_blocking(move || {
            let _place = place;
            work(&console)
        });
        done.await.ok()
    }
}
