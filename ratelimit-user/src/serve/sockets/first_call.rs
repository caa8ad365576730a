//! Whether a connection has brought a call.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::service::Service;
use tokio::time::sleep;

/// Whether a connection has brought a call.
pub(super) struct FirstCall(Arc<AtomicBool>);

/// A service whose first call is noticed.
pub(super) struct Watched<S> {
    service: S,
    has_call: Arc<AtomicBool>,
}

impl FirstCall {
    /// Watches the calls of a service.
    pub(super) fn watch<S>(service: S) -> (Watched<S>, Self) {
        let has_call = Arc::new(AtomicBool::new(false));
        (Watched { service, has_call: Arc::clone(&has_call) }, Self(has_call))
    }

    /// Returns if there is no call after this time.
    pub(super) async fn late(self, time: Duration) {
        sleep(time).await;
        if self.0.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }
}

impl<R, S: Service<R>> Service<R> for Watched<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, request: R) -> S::Future {
        self.has_call.store(true, Ordering::Relaxed);
        self.service.call(request)
    }
}
