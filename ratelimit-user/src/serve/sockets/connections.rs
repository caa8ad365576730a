//! Connections of callers, within bounds. A slow caller only occupies its own connection.

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use anyhow::Result;
use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::{
    first_call::FirstCall,
    listener::{Listener, Stream},
};
use crate::config::requests::Listen;

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

/// The calls of a connection of HTTP/2 at a time. Further ones wait.
const CALLS: u32 = 256;
/// The time after which a silent connection of HTTP/2 is asked whether it still lives, and the time it has to answer.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);

/// The version of HTTP on a socket.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) enum Protocol {
    Http1,
    /// Without an upgrade from HTTP/1, as gRPC has it.
    Http2,
}

/// A socket and its connections.
pub(in crate::serve) struct Connections {
    listener: Listener,
    protocol: Protocol,
    routes: Router,
    permits: Arc<Semaphore>,
    graceful: GracefulShutdown,
}

impl Connections {
    /// Opens the socket.
    pub(in crate::serve) async fn open(listen: &Listen, protocol: Protocol, routes: Router) -> Result<Self> {
        Ok(Self {
            listener: Listener::open(listen).await?,
            protocol,
            routes,
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            graceful: GracefulShutdown::new(),
        })
    }

    /// Accepts connections until this is dropped.
    pub(in crate::serve) async fn accept(&self) -> Infallible {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match (permit, self.listener.accept().await) {
                (Ok(permit), Ok(stream)) => self.serve(stream, permit),
                _ => sleep(PAUSE).await,
            }
        }
    }

    fn serve(&self, stream: Box<dyn Stream>, permit: OwnedSemaphorePermit) {
        let (stream, routes) = (TokioIo::new(stream), TowerToHyperService::new(self.routes.clone()));
        match self.protocol {
            Protocol::Http1 => {
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
                tokio::spawn(hold(permit, self.graceful.watch(server.serve_connection(stream, routes))));
            }
            Protocol::Http2 => {
                let mut server = http2::Builder::new(TokioExecutor::new());
                server.timer(TokioTimer::new()).max_concurrent_streams(CALLS).max_header_list_size(HEAD_BYTES as u32);
                server.keep_alive_interval(PING).keep_alive_timeout(PONG);
                let (routes, first_call) = FirstCall::watch(routes);
                let connection = self.graceful.watch(server.serve_connection(stream, routes));
                tokio::spawn(hold(permit, async move {
                    tokio::pin!(connection);
                    tokio::select! {
                        // A connection without any call ends.
                        () = first_call.late(HEAD_TIME) => {}
                        _ = &mut connection => {}
                    }
                }));
            }
        }
    }

    /// Closes the socket, answers calls that have begun, and ends all connections.
    pub(in crate::serve) async fn end(self) {
        drop(self.listener);
        let _ = timeout(END_TIME, self.graceful.shutdown()).await;
    }
}

/// Keeps a place until a connection has ended. Errors concern only the caller, which sees them.
async fn hold<T>(permit: OwnedSemaphorePermit, connection: impl Future<Output = T>) {
    let _ = connection.await;
    drop(permit);
}
