//! One request, and the redirects that it leads to.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{
    Request, Response, StatusCode, Uri,
    body::Incoming,
    client::conn::http1,
    header::{ACCEPT_ENCODING, HOST, HeaderMap, HeaderValue, LOCATION, USER_AGENT},
};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{
    net::TcpStream,
    runtime::Builder,
    spawn,
    time::{Instant, timeout_at},
};
use tower_service::Service as _;

use super::{
    address::Address,
    body::{Body, Bounds},
    error::{FetchError, broken, innermost},
};
use crate::{
    stream::Stream,
    trust::{self, Trust},
};

/// The most time for a connection, in which all addresses of the host are tried.
const CONNECT: Duration = Duration::from_secs(10);

/// The largest head of an answer in bytes.
const HEAD: usize = 16 << 10;

/// The name of this program in requests.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("ratelimit/", env!("CARGO_PKG_VERSION")));

/// A request for a resource.
#[derive(Debug, Clone)]
pub struct Get {
    /// Where it is.
    pub address: Address,
    /// Headers of the request. Sensitive ones are never sent to another server that a redirect leads to.
    pub headers: HeaderMap,
    /// Whom connections trust.
    pub trust: Trust,
    /// How many redirects are followed.
    pub redirects: usize,
    /// The largest body in bytes.
    pub most: u64,
    /// The time until the end of the body.
    pub time: Duration,
}

/// An answer with any status but that of a redirect.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, which has not arrived yet.
    pub body: Body,
}

impl Get {
    /// Sends the request, and follows redirects. It returns as soon as the head of the answer is there.
    ///
    /// # Errors
    ///
    /// Any [`FetchError`].
    pub fn send(self) -> Result<Answer, FetchError> {
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
        let mut may_be_this_host = true;
        for _ in 0..=self.redirects {
            let stream = connect(&address).await?;
            // A name or a special address can lead to this host too. Nothing is sent before this check.
            let is_this_host = is_this_host(&stream);
            if is_this_host && !may_be_this_host {
                return Err(FetchError::Downgrade);
            }
            may_be_this_host = is_this_host;
            let response = ask(stream, &address, &headers, &self.trust).await?;
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

/// Asks one server through a connection.
async fn ask(
    stream: TcpStream,
    address: &Address,
    headers: &HeaderMap,
    trust: &Trust,
) -> Result<Response<Incoming>, FetchError> {
    let server = address.authority();
    let stream = encrypted(stream, address, trust).await?;
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

async fn connect(address: &Address) -> Result<TcpStream, FetchError> {
    let uri: Uri = address.as_str().parse().map_err(|_| FetchError::Location)?;
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT));
    let stream = connector.call(uri).await;
    let failed = |error| FetchError::Connect { server: address.authority(), error };
    stream.map(TokioIo::into_inner).map_err(|error| failed(innermost(&error)))
}

/// Returns whether a server is on this host, or can only be on its link, such as the service with the secrets of a virtual
/// machine.
fn is_this_host(stream: &TcpStream) -> bool {
    let (Ok(server), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return true };
    is_local(server, own)
}

fn is_local(server: SocketAddr, own: SocketAddr) -> bool {
    let [server, own] = [server, own].map(|address| address.ip().to_canonical());
    let is_link_local = match server {
        IpAddr::V4(server) => server.is_link_local(),
        IpAddr::V6(server) => server.is_unicast_link_local(),
    };
    server == own || server.is_loopback() || server.is_unspecified() || is_link_local
}

/// Encrypts a connection, unless the address is one without encryption.
async fn encrypted(stream: TcpStream, address: &Address, trust: &Trust) -> Result<Box<dyn Stream>, FetchError> {
    let server = address.authority();
    if !address.is_encrypted() {
        return Ok(Box::new(stream));
    }
    let name = address.server_name().ok_or(FetchError::Location)?;
    let stream = trust.connector().ok_or(FetchError::NoAuthority)?.connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| FetchError::Encryption { server, error: trust::problem(&error) })?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn addresses_of_this_host_and_its_link_are_known() {
        let is_local = |server: &str, own: &str| is_local(server.parse().unwrap(), own.parse().unwrap());
        for server in [
            "127.9.9.9:80",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
            "0.0.0.0:80",
            "[::]:80",
            "169.254.169.254:80",
            "[fe80::1]:80",
            "192.0.2.1:80",
            "[::ffff:192.0.2.1]:80",
        ] {
            assert!(is_local(server, "192.0.2.1:9"), "{server}");
        }
        for server in ["192.0.2.2:80", "10.0.0.1:80", "[2001:db8::1]:80"] {
            assert!(!is_local(server, "192.0.2.1:9"), "{server}");
        }
    }

    #[test]
    fn other_ways_to_this_host_are_found_after_the_connection() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["0.0.0.0", "0", "127.1", "[::ffff:127.0.0.1]"] {
            let address: Address = format!("http://{host}:{port}/").parse().unwrap();
            let stream = runtime.block_on(connect(&address)).unwrap();
            assert!(is_this_host(&stream), "{host}");
        }
    }
}
