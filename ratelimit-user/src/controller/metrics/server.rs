//! Answers those who ask, within bounds: who sends slowly, reads slowly or comes all the time takes a place for a while, and nothing else.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq as _;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    listener::{Bound, Stream},
    scraper::Scraper,
};
use crate::config::metrics::Token;

/// Connections at a time. Others wait.
const CONNECTIONS: usize = 16;
/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// How long all of it may take. To read the maps takes a few seconds where there are millions of sources.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
/// Bytes of a request, which has no body; the least that hyper takes.
const REQUEST_BYTES: usize = 8_192;
/// How long to wait where the system takes no connections.
const PAUSE: Duration = Duration::from_millis(100);

const BEARER: &[u8] = b"Bearer ";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// Who may come in.
#[derive(Debug, Default)]
pub(super) struct Door(Mutex<Option<Token>>);

impl Door {
    /// For who has this token; for everybody without one.
    pub(super) fn new(token: Option<Token>) -> Self {
        Self(Mutex::new(token))
    }

    /// The same from now on.
    pub(super) fn change(&self, token: Option<Token>) {
        *self.token() = token;
    }

    /// Whether these headers have the token. How long that takes says nothing of the token but its length.
    fn lets_in(&self, headers: &HeaderMap) -> bool {
        let token = self.token();
        let Some(token) = token.as_ref() else { return true };
        let said = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let (scheme, said) = said.split_at_checked(BEARER.len()).unwrap_or_default();
        scheme.eq_ignore_ascii_case(BEARER) & bool::from(said.ct_eq(token.bytes()))
    }

    fn token(&self) -> MutexGuard<'_, Option<Token>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a socket, until it is aborted.
pub(super) async fn serve(socket: Bound, door: Arc<Door>, scraper: Arc<Scraper>) {
    let Ok(listener) = socket.listen() else { return };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // They end with this.
    let mut connections = JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok(stream) => {
                let (door, scraper) = (Arc::clone(&door), Arc::clone(&scraper));
                connections.spawn(async move {
                    let _ = timeout(CONNECTION_TIME, answer(stream, door, scraper)).await;
                    drop(place);
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Answers one request.
async fn answer(stream: Box<dyn Stream>, door: Arc<Door>, scraper: Arc<Scraper>) {
    let respond = service_fn(|request| {
        let (door, scraper) = (Arc::clone(&door), Arc::clone(&scraper));
        async move { Ok::<_, Infallible>(respond(&request, &door, scraper).await) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(REQUEST_TIME).max_buf_size(REQUEST_BYTES);
    // What goes wrong is the other side's, and it knows.
    let _ = server.serve_connection(TokioIo::new(stream), respond).await;
}

async fn respond(request: &Request<Incoming>, door: &Door, scraper: Arc<Scraper>) -> Response<String> {
    let headers = request.headers();
    if !door.lets_in(headers) {
        let text = "the token is missing or another: Authorization: Bearer TOKEN\n".to_owned();
        return with(StatusCode::UNAUTHORIZED, (WWW_AUTHENTICATE, "Bearer"), text);
    }
    if request.uri().path() != "/metrics" {
        return words(StatusCode::NOT_FOUND, "there is /metrics here\n");
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return with(StatusCode::METHOD_NOT_ALLOWED, (ALLOW, "GET, HEAD"), "this can only be read\n".to_owned());
    }
    let Some(page) = scraper.page().await else {
        return words(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the numbers cannot be read: see what the daemon has printed\n",
        );
    };
    if headers.get(ACCEPT).is_some_and(|accepted| accepted == JSON) {
        let json = serde_json::to_string(&page).unwrap_or_default();
        return with(StatusCode::OK, (CONTENT_TYPE, JSON), json + "\n");
    }
    with(StatusCode::OK, (CONTENT_TYPE, TEXT), page.text())
}

fn words(status: StatusCode, text: &str) -> Response<String> {
    with(status, (CONTENT_TYPE, "text/plain; charset=utf-8"), text.to_owned())
}

fn with(status: StatusCode, (name, value): (HeaderName, &'static str), text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
