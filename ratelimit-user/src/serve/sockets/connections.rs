//! Connections of callers, within bounds. A slow caller only occupies its own connection.

use std::{convert::Infallible, sync::Arc, time::Duration};

use anyhow::Result;
use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{
    answers::Answers,
    callers::Callers,
    idle::Brought,
    listener::{Accepted, Listener},
    tls::Shown,
    unread::Unread,
};
use crate::{config::requests::Listen, serve::access::Peer, wire::Stream};

/// The number of connections at a time. Further ones wait.
pub(in crate::serve) const CONNECTIONS: usize = 4_096;
/// One of so many parts of them is the most that a caller may have.
const PARTS: usize = 4;
/// The time after which a connection ends whose caller takes no bytes of an answer.
const READ_TIME: Duration = Duration::from_secs(10);
/// The time in which a handshake and the head of a call must arrive, and after which an idle connection ends.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The largest head in bytes.
const HEAD_BYTES: usize = 32 << 10;
/// The pause after the system fails to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// The time that calls have when the server ends.
const END_TIME: Duration = Duration::from_secs(10);

/// The time without a call after which a connection of HTTP/2 ends. Further calls open another one.
const IDLE_TIME: Duration = Duration::from_secs(60);
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

impl Protocol {
    /// Returns its name in ALPN.
    fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
        }
    }
}

/// A socket and its connections.
pub(in crate::serve) struct Connections<A> {
    listener: Listener,
    protocol: Protocol,
    answers: Arc<A>,
    /// Encrypts connections. None if they are not encrypted.
    tls: Option<TlsAcceptor>,
    permits: Arc<Semaphore>,
    callers: Callers,
    graceful: GracefulShutdown,
    /// Its end stops handshakes.
    handshakes: watch::Sender<()>,
}

impl<A: Answers> Connections<A> {
    /// Opens the socket for so many connections at a time. They are encrypted if they show a certificate.
    pub(in crate::serve) async fn open(
        listen: &Listen,
        (protocol, most): (Protocol, usize),
        shown: Option<&Arc<Shown>>,
        answers: A,
    ) -> Result<Self> {
        Ok(Self {
            listener: Listener::open(listen).await?,
            protocol,
            answers: Arc::new(answers),
            tls: shown.map(|shown| shown.acceptor(protocol.name())).transpose()?,
            permits: Arc::new(Semaphore::new(most)),
            callers: Callers::new((most / PARTS).max(1)),
            graceful: GracefulShutdown::new(),
            handshakes: watch::Sender::default(),
        })
    }

    /// Accepts connections until this is dropped.
    pub(in crate::serve) async fn accept(&self) -> Infallible {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match (permit, self.listener.accept().await) {
                (Ok(permit), Ok(accepted)) => self.serve(accepted, permit),
                _ => sleep(PAUSE).await,
            }
        }
    }

    fn serve(&self, Accepted { stream, peer, caller }: Accepted, permit: OwnedSemaphorePermit) {
        let Some(place) = self.callers.admit(caller) else { return };
        let place = (place, permit);
        let calls = Calls { protocol: self.protocol, answers: Arc::clone(&self.answers), peer };
        let watcher = self.graceful.watcher();
        let Some(tls) = self.tls.clone() else {
            tokio::spawn(async move {
                calls.answer(stream, watcher).await;
                drop(place);
            });
            return;
        };
        let mut end = self.handshakes.subscribe();
        tokio::spawn(async move {
            // A slow caller only keeps its own connection waiting.
            let encrypted = tokio::select! {
                encrypted = timeout(HEAD_TIME, tls.accept(stream)) => encrypted,
                _ = end.changed() => return,
            };
            if let Ok(Ok(stream)) = encrypted {
                calls.answer(stream, watcher).await;
            }
            drop(place);
        });
    }

    /// Closes the socket, answers calls that have begun, and ends all connections.
    pub(in crate::serve) async fn end(self) {
        drop((self.listener, self.handshakes));
        let _ = timeout(END_TIME, self.graceful.shutdown()).await;
    }
}

/// The calls of a connection.
struct Calls<A> {
    protocol: Protocol,
    answers: Arc<A>,
    peer: Option<Peer>,
}

impl<A: Answers> Calls<A> {
    /// Answers all of them. Errors concern only the caller, which sees them.
    async fn answer(self, stream: impl Stream + 'static, watcher: Watcher) {
        let Self { protocol, answers, peer } = self;
        let brought = Brought::default();
        let brings = brought.clone();
        let service = service_fn(move |mut call: Request<Incoming>| {
            brings.note();
            if let Some(peer) = peer {
                call.extensions_mut().insert(peer);
            }
            let answers = Arc::clone(&answers);
            async move { Ok::<_, Infallible>(answers.answer(call).await) }
        });
        let stream = TokioIo::new(Unread::new(stream, READ_TIME));
        match protocol {
            Protocol::Http1 => {
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
                // Bodies are short. To copy one costs less than to send it apart from its head.
                server.writev(false);
                let _ = watcher.watch(server.serve_connection(stream, service)).await;
            }
            Protocol::Http2 => {
                let mut server = http2::Builder::new(TokioExecutor::new());
                server.timer(TokioTimer::new()).max_concurrent_streams(CALLS).max_header_list_size(HEAD_BYTES as u32);
                server.keep_alive_interval(PING).keep_alive_timeout(PONG);
                let connection = watcher.watch(server.serve_connection(stream, service));
                tokio::select! {
                    // An idle connection keeps a place from others.
                    () = brought.nothing_for(HEAD_TIME, IDLE_TIME) => {}
                    _ = connection => {}
                }
            }
        }
    }
}
