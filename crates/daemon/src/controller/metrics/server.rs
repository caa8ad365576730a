//! Answers HTTP requests within bounds. A client that sends or reads slowly only occupies one connection for a while.

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
use ratelimit_base::stream::Stream;
use subtle::ConstantTimeEq as _;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{listener::Bound, scraper::Scraper};
use crate::config::daemon::metrics::Token;

/// The number of connections at a time. Further ones wait.
const CONNECTIONS: usize = 16;
/// The time in which a request must arrive.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// The time for a whole connection. Reading the maps takes some seconds if there are millions of sources.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
/// The largest request in bytes. It has no body. hyper accepts no smaller value.
const REQUEST_BYTES: usize = 8_192;
/// The pause after the system fails to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

const BEARER: &[u8] = b"Bearer ";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// Checks the token of requests.
#[derive(Debug, Default)]
pub(super) struct TokenCheck(Mutex<Option<Token>>);

impl TokenCheck {
    /// Requires this token. Without one, every request is allowed.
    pub(super) fn new(token: Option<Token>) -> Self {
        Self(Mutex::new(token))
    }

    /// Changes the required token.
    pub(super) fn change(&self, token: Option<Token>) {
        *self.token() = token;
    }

    /// Returns whether the headers have the token. The time of the comparison depends only on its length.
    fn allows(&self, headers: &HeaderMap) -> bool {
        let token = self.token();
        let Some(token) = token.as_ref() else { return true };
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let (scheme, given) = given.split_at_checked(BEARER.len()).unwrap_or_default();
        scheme.eq_ignore_ascii_case(BEARER) & bool::from(given.ct_eq(token.bytes()))
    }

    fn token(&self) -> MutexGuard<'_, Option<Token>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a socket until the task is aborted.
pub(super) async fn serve(socket: Bound, check: Arc<TokenCheck>, scraper: Arc<Scraper>) {
    let Ok(listener) = socket.listen() else { return };
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropping this ends all connections.
    let mut connections = JoinSet::new();
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok(stream) => {
                let (check, scraper) = (Arc::clone(&check), Arc::clone(&scraper));
                connections.spawn(async move {
                    let _ = timeout(CONNECTION_TIME, answer(stream, check, scraper)).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Answers one request.
async fn answer(stream: Box<dyn Stream>, check: Arc<TokenCheck>, scraper: Arc<Scraper>) {
    let respond = service_fn(|request| {
        let (check, scraper) = (Arc::clone(&check), Arc::clone(&scraper));
        async move { Ok::<_, Infallible>(respond(&request, &check, scraper).await) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(REQUEST_TIME).max_buf_size(REQUEST_BYTES);
    // Errors concern only the client, which sees them.
    let _ = server.serve_connection(TokioIo::new(stream), respond).await;
}

async fn respond(request: &Request<Incoming>, check: &TokenCheck, scraper: Arc<Scraper>) -> Response<String> {
    let headers = request.headers();
    if !check.allows(headers) {
        let text = "the token is missing or wrong: send the header Authorization: Bearer TOKEN\n".to_owned();
        return with(StatusCode::UNAUTHORIZED, (WWW_AUTHENTICATE, "Bearer"), text);
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "not found: the metrics are at /metrics\n");
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return with(StatusCode::METHOD_NOT_ALLOWED, (ALLOW, "GET, HEAD"), "use GET or HEAD\n".to_owned());
    }
    let Some(page) = scraper.page().await else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be read: see the output of the daemon\n");
    };
    if headers.get(ACCEPT).is_some_and(|accepted| accepted == JSON) {
        let json = serde_json::to_string(&page).unwrap_or_default();
        return with(StatusCode::OK, (CONTENT_TYPE, JSON), json + "\n");
    }
    with(StatusCode::OK, (CONTENT_TYPE, TEXT), page.text())
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    with(status, (CONTENT_TYPE, "text/plain; charset=utf-8"), text.to_owned())
}

fn with(status: StatusCode, (name, value): (HeaderName, &'static str), text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
