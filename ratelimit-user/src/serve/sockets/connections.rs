//! Connections of callers, within bounds. A slow caller only occupies its own connection.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::listener::{Listener, Stream};

/// The number of connections at a time. Further ones wait.
const CONNECTIONS: usize = 4_096;
/// The time in which the head of a call must arrive, and after which an idle connection ends.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The largest head in bytes.
const HEAD_BYTES: usize = 32 << 10;
/// The pause after the system fails to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// The time that calls have when the server ends.
const END_TIME: Duration = Duration::from_secs(10);

/// The connections of a server.
pub(in crate::serve) struct Connections {
    routes: Router,
    permits: Arc<Semaphore>,
    graceful: GracefulShutdown,
}

impl Connections {
    pub(in crate::serve) fn new(routes: Router) -> Self {
        Self { routes, permits: Arc::new(Semaphore::new(CONNECTIONS)), graceful: GracefulShutdown::new() }
    }

    /// Accepts connections until this is dropped.
    pub(in crate::serve) async fn accept(&self, listener: &Listener) -> Infallible {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match (permit, listener.accept().await) {
                (Ok(permit), Ok(stream)) => self.serve(stream, permit),
                _ => sleep(PAUSE).await,
            }
        }
    }

    fn serve(&self, stream: Box<dyn Stream>, permit: OwnedSemaphorePermit) {
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
        let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.routes.clone()));
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            // Errors concern only the caller, which sees them.
            let _ = connection.await;
            drop(permit);
        });
    }

    /// Answers calls that have begun, and ends all connections.
    pub(in crate::serve) async fn end(self) {
        let _ = timeout(END_TIME, self.graceful.shutdown()).await;
    }
}
