//! Questions to one server by HTTP/1, over connections that are reused.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE},
    http::HeaderValue,
};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use ratelimit_base::text::excerpt::message;
use tokio::{sync::Semaphore, time::timeout};

use super::{
    connector::Connector,
    error::{CallerError, ConnectError, Undecided},
    options::Server,
    token::Token,
};
use crate::wire::{BATCH, BODY, CHECK, LOAD, Problem};

/// The largest head of an answer in bytes.
const HEAD: usize = 16 << 10;
/// The time after which an idle connection ends. The server ends it after ten seconds.
const IDLE: Duration = Duration::from_secs(8);

/// One server.
#[derive(Debug)]
pub(super) struct Transport {
    client: Client<Connector, Full<Bytes>>,
    name: String,
    /// The header with the token.
    token: Option<HeaderValue>,
    check: Uri,
    batch: Uri,
    calls: Semaphore,
}

/// Reads an answer: whether its status is 200, and its body. None if it makes no sense.
pub(super) type Read<A> = fn(bool, &[u8]) -> Option<A>;

/// What a server has answered, and its load.
#[derive(Debug)]
pub(super) struct Received<A> {
    pub(super) answer: A,
    pub(super) load: Option<u64>,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    One,
    Batch,
}

impl Transport {
    /// `wait` is as in [`Connector::new`].
    pub(super) fn new(server: &Server, calls: usize, wait: Duration) -> Result<Self, CallerError> {
        let Server { address, token, .. } = server;
        let calls = calls.clamp(1, Semaphore::MAX_PERMITS);
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(calls);
        client.http1_max_buf_size(HEAD);
        Ok(Self {
            client: client.build(Connector::new(server, wait)?),
            name: address.to_string(),
            token: token.as_ref().map(Token::header),
            check: address.uri(CHECK)?,
            batch: address.uri(BATCH)?,
            calls: Semaphore::new(calls),
        })
    }

    /// Asks within this time. Without an answer, the error has the time that the server had.
    pub(super) async fn ask<A>(
        &self,
        kind: Kind,
        body: Bytes,
        read: Read<A>,
        time: Duration,
    ) -> Result<Received<A>, Undecided> {
        let begin = Instant::now();
        let (_permit, time) = match self.calls.try_acquire() {
            Ok(permit) => (permit, time),
            Err(_) => {
                let permit = timeout(time, self.calls.acquire()).await.ok().and_then(Result::ok);
                let busy = || Undecided::Busy { server: self.name.clone() };
                (permit.ok_or_else(busy)?, time.saturating_sub(begin.elapsed()))
            }
        };
        let late = |_| Undecided::Late { server: self.name.clone(), time };
        timeout(time, self.call(kind, body, read)).await.map_err(late)?
    }

    async fn call<A>(&self, kind: Kind, body: Bytes, read: Read<A>) -> Result<Received<A>, Undecided> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = match kind {
            Kind::One => self.check.clone(),
            Kind::Batch => self.batch.clone(),
        };
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        let response = self.client.request(request).await.map_err(|error| self.broken(&error))?;
        self.read(response, read).await
    }

    async fn read<A>(&self, response: Response<Incoming>, read: Read<A>) -> Result<Received<A>, Undecided> {
        let status = response.status();
        let load = response.headers().get(LOAD).and_then(|load| load.to_str().ok()?.parse().ok());
        let no_decision = || Undecided::Answer { server: self.name.clone(), status: status.as_u16() };
        match status {
            StatusCode::OK | StatusCode::TOO_MANY_REQUESTS => {}
            // The question is at fault, so another server would not answer it either.
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {}
            _ => return Err(no_decision()),
        }
        let body = Limited::new(response.into_body(), BODY).collect().await;
        let body = body.map_err(|error| self.broken(&*error))?.to_bytes();
        if matches!(status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS) {
            let answer = read(status == StatusCode::OK, &body).ok_or_else(no_decision)?;
            return Ok(Received { answer, load });
        }
        let Problem { error } = serde_json::from_slice(&body).map_err(|_| no_decision())?;
        let error = message(&error);
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Undecided::Denied { server: self.name.clone(), error },
            _ => Undecided::Question(error),
        })
    }

    /// Returns why there is no answer, with the innermost error, which says most.
    fn broken(&self, mut error: &(dyn Error + 'static)) -> Undecided {
        while let Some(source) = error.source() {
            error = source;
            if let Some(error) = error.downcast_ref::<ConnectError>() {
                return error.clone().into();
            }
        }
        Undecided::Connection { server: self.name.clone(), error: error.to_string() }
    }
}
