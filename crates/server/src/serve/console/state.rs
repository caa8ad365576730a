//! What all pages share.

use std::{convert::Infallible, sync::Arc, time::Instant};

use axum::{http::StatusCode, response::Response};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    history::{History, STEP},
    packets::Packets,
    parts::page::problem,
    places::{Busy, Place, Places, Work},
    visit::{Form, Gate, Visitor},
};
use crate::{
    config::console::Console as Settings,
    serve::{access::Peer, rules::Book, service::Service},
};

/// What all pages share.
pub(in crate::serve) struct Console {
    pub(super) service: Arc<Service>,
    pub(super) book: Arc<Book>,
    pub(super) gate: Gate,
    pub(super) history: History,
    /// Where the daemon shows packets.
    pub(super) packets: Option<Packets>,
    places: Places,
}

/// A call of someone who has signed in.
pub(super) struct Call {
    pub(super) visitor: Visitor,
    pub(super) query: Form,
    pub(super) form: Form,
    pub(super) peer: Option<Peer>,
    /// Whether the page itself asks for its live parts.
    pub(super) is_live: bool,
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
            places: Places::default(),
        })
    }

    /// Reads the counts again and again, for plots.
    pub(in crate::serve) async fn watch(self: Arc<Self>) -> Infallible {
        let mut ticks = interval(STEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let service = Arc::clone(&self.service);
            // Freeing many requests takes a while.
            let _ = spawn_blocking(move || service.recent.as_ref().map(|recent| recent.tidy(service.now()))).await;
            self.history.take(&self.service.limiter(), self.service.counts.decided());
            if let Some(packets) = &self.packets {
                let counts = packets.counts().await;
                self.history.take_packets(counts, Instant::now());
            }
        }
    }

    /// Waits for a place to work. An error is the answer.
    pub(super) async fn place(&self, kind: Work, visitor: &Visitor) -> Result<Place, Response> {
        self.places.take(kind, visitor.caller.name()).await.map_err(|Busy| {
            let text =
                "Your token has too many previews, readings or changes at a time. Try again when they have ended.";
            problem(Some(visitor), StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    /// Does work that takes a while, and goes on if its visitor does not wait. An error is the answer.
    pub(super) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        kind: Work,
        visitor: &Visitor,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Response> {
        let place = self.place(kind, visitor).await?;
        let console = Arc::clone(self);
        let done = spawn_blocking(move || {
            let _place = place;
            work(&console)
        });
        done.await.map_err(|_| {
            let text = match kind {
                Work::Read => "The page has failed.",
                Work::Change => "The change has failed. Read the rule again.",
            };
            problem(Some(visitor), StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }
}
