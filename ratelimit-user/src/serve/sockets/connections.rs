//! Connections of callers, within bounds. A slow caller only occupies its own connection.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::listener::{Listener, Stream};
use crate::serve::access::Peer;

/// The number of connections at a time. Further ones wait.
const CONNECTIONS: usize = 4_096;
/// The time in which the keys of an encrypted connection must be agreed.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
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
    /// Encrypts connections. None if they are not encrypted.
    tls: Option<TlsAcceptor>,
    permits: Arc<Semaphore>,
    graceful: GracefulShutdown,
    /// Its end stops handshakes.
    handshakes: watch::Sender<()>,
}

impl Connections {
    pub(in crate::serve) fn new(routes: Router, tls: Option<TlsAcceptor>) -> Self {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        Self { routes, tls, permits, graceful: GracefulShutdown::new(), handshakes: watch::Sender::default() }
    }

    /// Accepts connections until this is dropped.
    pub(in crate::serve) async fn accept(&self, listener: &Listener) -> Infallible {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match (permit, listener.accept().await) {
                (Ok(permit), Ok((stream, peer))) => self.serve(stream, peer, permit),
                _ => sleep(PAUSE).await,
            }
        }
    }

    fn serve(&self, stream: Box<dyn Stream>, peer: Option<Peer>, permit: OwnedSemaphorePermit) {
        let (routes, watcher) = (self.routes.clone(), self.graceful.watcher());
        let Some(tls) = self.tls.clone() else {
            tokio::spawn(async move {
                answer(stream, peer, routes, watcher).await;
                drop(permit);
            });
            return;
        };
        let mut end = self.handshakes.subscribe();
        tokio::spawn(async move {
            // A slow caller only keeps its own connection waiting.
            let encrypted = tokio::select! {
                encrypted = timeout(HANDSHAKE_TIME, tls.accept(stream)) => encrypted,
                _ = end.changed() => return,
            };
            if let Ok(Ok(stream)) = encrypted {
                answer(stream, peer, routes, watcher).await;
            }
            drop(permit);
        });
    }

    /// Answers calls that have begun, and ends all connections.
    pub(in crate::serve) async fn end(self) {
        drop(self.handshakes);
        let _ = timeout(END_TIME, self.graceful.shutdown()).await;
    }
}

/// Answers the calls of a connection.
async fn answer(stream: impl Stream + 'static, peer: Option<Peer>, routes: Router, watcher: Watcher) {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
    let service = service_fn(move |mut call: Request<Incoming>| {
        if let Some(peer) = peer {
            call.extensions_mut().insert(peer);
        }
        routes.clone().call(call)
    });
    // Errors concern only the caller, which sees them.
    let _ = watcher.watch(server.serve_connection(TokioIo::new(stream), service)).await;
}
