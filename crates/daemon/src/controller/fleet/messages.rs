//! Reports on their way to the engine.

use ratelimit_common::fleet::share::{Report, Terms};
use ratelimit_fleet::engine::{Engine, Message};
use tokio::time::Instant;

use super::{
    call::{Call, Reported},
    measure::Measure,
    watched::Watched,
};

/// Reports, and the hashes of their sources.
#[derive(Default)]
pub(super) struct Messages {
    hashes: Vec<u64>,
    messages: Vec<Message>,
}

impl Messages {
    /// Adds a report.
    pub(super) fn push(&mut self, hash: u64, watched: &Watched, report: Report) {
        self.hashes.push(hash);
        let Measure { key, limit, .. } = &watched.measure;
        self.messages.push(Message { key: key.clone(), limit: *limit, report });
    }

    /// Sends them over the connection with this number. Returns what waits for the answers. None if there are no reports.
    pub(super) fn send(
        &self,
        engine: &Engine,
        terms: &Terms,
        number: u64,
    ) -> Option<impl Future<Output = Call> + use<>> {
        if self.messages.is_empty() {
            return None;
        }
        let (begin, hashes) = (Instant::now(), self.hashes.clone());
        let report = engine.report(terms, &self.messages);
        Some(async move {
            let (answers, failure) = report.await;
            Call::Reports(Reported { number, hashes, answers, failure, latency: begin.elapsed() })
        })
    }

    /// Forgets them. The memory stays for the next ones.
    pub(super) fn clear(&mut self) {
        self.hashes.clear();
        self.messages.clear();
    }
}
