//! Whether a connection brings calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

/// The calls that a connection has brought. Copies are about the same connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Brought(Arc<AtomicU64>);

impl Brought {
    /// Notes a call.
    pub(super) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns when there was no call for `first`, or later for `further`. Each call takes less time than that.
    pub(super) async fn nothing_for(&self, first: Duration, further: Duration) {
        let (mut seen, mut time) = (0, first);
        loop {
            sleep(time).await;
            let calls = self.0.load(Ordering::Relaxed);
            if calls == seen {
                return;
            }
            (seen, time) = (calls, further);
        }
    }
}
