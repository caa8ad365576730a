//! Connections of callers, within bounds. A slow caller only occupies its own connection.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use anyhow::Result;
use axum::{
    body::Body,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use http_body_util::BodyExt as _;
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
use ratelimit_base::stream::Stream;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{
    answers::Answers,
    callers::Callers,
    drained::{Drained, LongBodies},
    idle::Brought,
    listener::{Accepted, Listener},
    readable::Readable,
    row::Row,
    tls::Shown,
    unread::{Turn, Unread},
    waiting::WaitingWrites,
};
use crate::{config::Listen, serve::access::Peer};

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
/// The errors of a caller of HTTP/2, such as calls that are malformed, after which its connection ends.
const ERRORS: usize = 1_024;
/// The time after which a silent connection of HTTP/2 is asked whether it still lives, and the time it has to answer.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);

/// The version of HTTP on a socket.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) enum Protocol {
    Http1,
    /// HTTP/1 with one call per connection. If all places are taken, a further connection takes that of the oldest.
    Http1Once,
    /// Without an upgrade from HTTP/1, as gRPC has it.
    Http2,
}

impl Protocol {
    /// Returns its name in ALPN.
    fn name(self) -> &'static str {
        match self {
            Self::Http1 | Self::Http1Once => "http/1.1",
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
    waiting: WaitingWrites,
    long: LongBodies,
    row: Option<Row>,
    graceful: GracefulShutdown,
    /// Its end stops handshakes.
    handshakes: watch::Sender<()>,
}

impl<A: Answers> Connections<A> {
    /// Opens the socket for so many connections at a time, a Unix one for a group. They are encrypted if they show a certificate.
    pub(in crate::serve) async fn open(
        (listen, group): (&Listen, Option<&str>),
        (protocol, most): (Protocol, usize),
        shown: Option<&Arc<Shown>>,
        answers: A,
    ) -> Result<Self> {
        let row = matches!(protocol, Protocol::Http1Once).then(Row::default);
        Ok(Self {
            listener: Listener::open(listen, group).await?,
            protocol,
            answers: Arc::new(answers),
            tls: shown.map(|shown| shown.acceptor(protocol.name())).transpose()?,
            // One place stays free for the next connection.
            permits: Arc::new(Semaphore::new(most + usize::from(row.is_some()))),
            callers: Callers::new((most / PARTS).max(1)),
            waiting: WaitingWrites::default(),
            long: LongBodies::default(),
            row,
            graceful: GracefulShutdown::new(),
            handshakes: watch::Sender::default(),
        })
    }

    /// Accepts connections until this is dropped.
    pub(in crate::serve) async fn accept(&self) -> Infallible {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match (permit, self.listener.accept().await) {
                (Ok(permit), Ok(accepted)) => {
                    let begun = accepted.and_then(|accepted| self.serve(accepted, permit));
                    let Some(begun) = begun else { continue };
                    if let Some(row) = &self.row {
                        row.add(begun, self.permits.available_permits() == 0);
                    }
                }
                _ => sleep(PAUSE).await,
            }
        }
    }

    fn serve(&self, Accepted { stream, peer, caller }: Accepted, permit: OwnedSemaphorePermit) -> Option<AbortHandle> {
        let place = self.callers.admit(caller)?;
        let (open_calls, place) = (place.calls(), (place, permit));
        let (answers, waiting, long) = (Arc::clone(&self.answers), self.waiting.clone(), self.long.clone());
        let calls = Calls { protocol: self.protocol, answers, waiting, long, peer, places: open_calls };
        let watcher = self.graceful.watcher();
        let Some(tls) = self.tls.clone() else {
            let begun = tokio::spawn(async move {
                calls.answer(stream, watcher).await;
                drop(place);
            });
            return Some(begun.abort_handle());
        };
        let mut end = self.handshakes.subscribe();
        let begun = tokio::spawn(async move {
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
        Some(begun.abort_handle())
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
    waiting: WaitingWrites,
    long: LongBodies,
    peer: Option<Peer>,
    /// Places for calls of HTTP/2 that are under way.
    places: Arc<Semaphore>,
}

impl<A: Answers> Calls<A> {
    /// Answers all of them. Errors concern only the caller, which sees them.
    async fn answer(self, stream: impl Stream + 'static, watcher: Watcher) {
        let Self { protocol, answers, waiting, long, peer, places } = self;
        let brought = Brought::default();
        let brings = brought.clone();
        let service = service_fn(move |mut call: Request<Incoming>| {
            brings.note();
            if let Some(peer) = peer {
                call.extensions_mut().insert(peer);
            }
            let place = match protocol {
                Protocol::Http1 | Protocol::Http1Once => None,
                Protocol::Http2 => Some(Arc::clone(&places).try_acquire_owned().map(Arc::new)),
            };
            // Calls that begin wait for a thread. Those without a place take little memory meanwhile.
            let answer = match place {
                None => Some(answer(Arc::clone(&answers), call.map(Body::new), None)),
                Some(Ok(place)) => {
                    let body = |body| Body::new(Drained::new(body, Arc::clone(&place), long.clone()));
                    Some(answer(Arc::clone(&answers), call.map(body), Some(Arc::clone(&place))))
                }
                Some(Err(_)) => None,
            };
            async move {
                Ok::<_, Infallible>(match answer {
                    Some(answer) => answer.await,
                    None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
                })
            }
        });
        let turn = Turn::default();
        let stream = Unread::new(stream, READ_TIME, waiting, turn.clone());
        match protocol {
            Protocol::Http1 | Protocol::Http1Once => {
                let mut server = http1::Builder::new();
                server.keep_alive(matches!(protocol, Protocol::Http1));
                server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
                // Bodies are short. To copy one costs less than to send it apart from its head.
                server.writev(false);
                let _ =
                    turn.each(watcher.watch(server.serve_connection(TokioIo::new(Readable(stream)), service))).await;
            }
            Protocol::Http2 => {
                let mut server = http2::Builder::new(TokioExecutor::new());
                server.timer(TokioTimer::new()).max_concurrent_streams(CALLS).max_header_list_size(HEAD_BYTES as u32);
                server.keep_alive_interval(PING).keep_alive_timeout(PONG);
                server.max_local_error_reset_streams(Some(ERRORS));
                let connection = turn.each(watcher.watch(server.serve_connection(TokioIo::new(stream), service)));
                tokio::select! {
                    // An idle connection keeps a place from others.
                    () = brought.nothing_for(HEAD_TIME, IDLE_TIME) => {}
                    _ = connection => {}
                }
            }
        }
    }
}

/// Answers a call. Its place is taken until the caller has the answer.
fn answer<A: Answers>(
    answers: Arc<A>,
    call: Request<Body>,
    place: Option<Arc<OwnedSemaphorePermit>>,
) -> Pin<Box<impl Future<Output = Response>>> {
    Box::pin(async move {
        let answer = answers.answer(call).await;
        match place {
            Some(place) => answer.map(|body| Body::new(body.map_frame(move |frame| (frame, &place).0))),
            None => answer,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;

    struct Empty;

    impl Answers for Empty {
        async fn answer(&self, _: Request<Body>) -> Response {
            Response::default()
        }
    }

    /// Makes a call, and reads until the connection ends.
    async fn call(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn connections_without_a_call_take_no_place_from_further_ones() {
        let listen = Listen::Tcp("127.0.0.1:0".parse().unwrap());
        let connections = Connections::open((&listen, None), (Protocol::Http1Once, 2), None, Empty).await.unwrap();
        let Listener::Tcp(listener) = &connections.listener else { panic!("it listens elsewhere") };
        let address = listener.local_addr().unwrap();
        let calls = async {
            let mut silent = Vec::new();
            for _ in 0..5 {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let answer = call(address).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("connection: close"), "{answer}");
            // The call took the place of the fourth one.
            for stream in &mut silent[..4] {
                assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
            }
            silent[4].write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            assert!(silent[4].read(&mut [0]).await.unwrap() > 0);
        };
        // A connection that waits for a place waits for the time that a head may take.
        tokio::select! {
            never = connections.accept() => match never {},
            done = timeout(Duration::from_secs(5), calls) => done.unwrap(),
        }
    }
}
