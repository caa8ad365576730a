//! One request, and the redirects that it leads to.

use std::time::Duration;

use axum::body::Bytes;
use http_body_util::Empty;
use hyper::{
    Request, Response, StatusCode, Uri,
    body::Incoming,
    client::conn::http1,
    header::{ACCEPT_ENCODING, HOST, HeaderMap, HeaderValue, LOCATION, USER_AGENT},
};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{
    runtime::Builder,
    spawn,
    time::{Instant, timeout_at},
};
use tower_service::Service as _;

use super::{
    address::Address,
    body::{Body, Bounds},
    error::{FetchError, broken, innermost},
    trust::{self, Trust},
};
use crate::wire;

/// The most time for a connection, in which all addresses of the host are tried.
const CONNECT: Duration = Duration::from_secs(10);

/// The largest head of an answer in bytes.
const HEAD: usize = 16 << 10;

/// The name of this program in requests.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("ratelimit/", env!("CARGO_PKG_VERSION")));

/// A request for a resource.
#[derive(Debug, Clone)]
pub(crate) struct Get {
    /// Where it is.
    pub(crate) address: Address,
    /// Headers of the request. Sensitive ones are never sent to another server that a redirect leads to.
    pub(crate) headers: HeaderMap,
    /// Whom connections trust.
    pub(crate) trust: Trust,
    /// How many redirects are followed.
    pub(crate) redirects: usize,
    /// The largest body in bytes.
    pub(crate) most: u64,
    /// The time until the end of the body.
    pub(crate) time: Duration,
}

/// An answer with any status but that of a redirect.
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Its headers.
    pub(crate) headers: HeaderMap,
    /// Its body, which has not arrived yet.
    pub(crate) body: Body,
}

impl Get {
    /// Sends the request, and follows redirects. It returns as soon as the head of the answer is there.
    ///
    /// # Errors
    ///
    /// Any [`FetchError`].
    pub(crate) fn send(self) -> Result<Answer, FetchError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| FetchError::System(error.to_string()))?;
        let Self { most, time, .. } = self;
        let answered = runtime.block_on(async {
            let end = Instant::now() + time;
            let answer = timeout_at(end, self.follow()).await.map_err(|_| FetchError::Late(time));
            answer.and_then(|answer| answer).map(|(response, server)| (response, server, end))
        });
        let (response, server, end) = match answered {
            Ok(answered) => answered,
            Err(error) => {
                // A search for an address of a host cannot be ended. It must not hold up the caller.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let (head, incoming) = response.into_parts();
        let body = Body::new(runtime, incoming, server, Bounds { most, time, end })?;
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Returns the first answer that is no redirect, and its server.
    async fn follow(self) -> Result<(Response<Incoming>, String), FetchError> {
        let (mut address, mut headers) = (self.address, self.headers);
        headers.entry(USER_AGENT).or_insert(AGENT);
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        for _ in 0..=self.redirects {
            let response = ask(&address, &headers, &self.trust).await?;
            if !is_redirect(response.status()) {
                return Ok((response, address.authority()));
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| address.join(location)).ok_or(FetchError::Location)?;
            if !may_follow(&address, &next) {
                return Err(FetchError::Downgrade);
            }
            if !next.has_origin_of(&address) {
                let public = headers.iter().filter(|(_, value)| !value.is_sensitive());
                headers = public.map(|(name, value)| (name.clone(), value.clone())).collect();
            }
            address = next;
        }
        Err(FetchError::Redirects(self.redirects))
    }
}

/// Returns whether a redirect loses no protection, and does not have this host ask itself for others.
fn may_follow(from: &Address, to: &Address) -> bool {
    let is_exposed = from.is_encrypted() && !to.is_encrypted() || to.is_open() && !from.is_open();
    !is_exposed && (!to.is_loopback() || from.is_loopback())
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    )
}

/// Asks one server.
async fn ask(address: &Address, headers: &HeaderMap, trust: &Trust) -> Result<Response<Incoming>, FetchError> {
    let server = address.authority();
    let stream = connect(address, trust).await?;
    let mut builder = http1::Builder::new();
    let (mut sender, connection) =
        builder.max_buf_size(HEAD).handshake(TokioIo::new(stream)).await.map_err(|error| broken(&server, &error))?;
    spawn(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = address.target().parse().map_err(|_| FetchError::Location)?;
    *request.headers_mut() = headers.clone();
    let host = HeaderValue::from_str(&server).map_err(|_| FetchError::Location)?;
    request.headers_mut().insert(HOST, host);
    sender.send_request(request).await.map_err(|error| broken(&server, &error))
}

async fn connect(address: &Address, trust: &Trust) -> Result<Box<dyn wire::Stream>, FetchError> {
    let server = address.authority();
    let uri: Uri = address.as_str().parse().map_err(|_| FetchError::Location)?;
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT));
    let stream = connector.call(uri).await;
    let stream = stream.map_err(|error| FetchError::Connect { server: server.clone(), error: innermost(&error) })?;
    let stream = stream.into_inner();
    if !address.is_encrypted() {
        return Ok(Box::new(stream));
    }
    let name = address.server_name().ok_or(FetchError::Location)?;
    let stream = trust.connector()?.connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| FetchError::Encryption { server, error: trust::problem(&error) })?))
}
