//! Whether a connection has brought a call.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

/// Whether a connection has brought a call. Copies are about the same connection.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstCall(Arc<AtomicBool>);

impl FirstCall {
    /// Notes a call.
    pub(super) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns if there is no call after this time.
    pub(super) async fn is_late(&self, time: Duration) {
        sleep(time).await;
        if self.0.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }
}
