//! One call of a server.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use axum::{
    body::Bytes,
    http::{
        HeaderName, HeaderValue, Method, Request, Response, StatusCode,
        header::{AUTHORIZATION, ETAG, HOST},
    },
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use ratelimit_base::text::excerpt::{escaped, excerpt};
use ratelimit_client::caller::{Connector, Server, Token};
use serde_json::Value;
use tokio::time::timeout;

/// The time until a server answers.
const TIME: Duration = Duration::from_secs(30);
/// The time until the queue of its socket has a place.
const QUEUE: Duration = Duration::from_secs(1);
/// The largest answer in bytes. A thousand of the largest rules are smaller.
const ANSWER: usize = 64 << 20;

/// What to ask.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// Path and parameters.
    pub(super) path: String,
    /// A condition of a change.
    pub(super) condition: Option<(HeaderName, HeaderValue)>,
    pub(super) body: &'a str,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    /// The version of a rule.
    pub(super) version: Option<u64>,
    pub(super) body: Value,
}

impl Call<'_> {
    /// Returns a call that reads.
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), condition: None, body: "" }
    }

    /// Makes the call. Fails if the server cannot be reached, or refuses it. That a rule is missing is an answer.
    pub(super) fn make(&self, server: &Server) -> Result<Answered> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(async { timeout(TIME, self.exchange(server)).await });
        let (status, version, body) = answer.map_err(|_| anyhow!("no answer within {} seconds", TIME.as_secs()))??;
        let body: Value = serde_json::from_slice(&body).with_context(|| {
            format!(
                "{status}: the answer is not that of `ratelimit serve`: {}",
                excerpt(&String::from_utf8_lossy(&body))
            )
        })?;
        let error = body.get("error").and_then(Value::as_str).map_or_else(|| status.to_string(), escaped);
        match status {
            StatusCode::NOT_FOUND if error.starts_with("not found") => {
                bail!("{} has no rules of callers: name the address `http` of the server ({error})", server.address)
            }
            _ if status.is_success() || status == StatusCode::NOT_FOUND => Ok(Answered { status, version, body }),
            StatusCode::UNAUTHORIZED if server.token.is_none() => bail!("{error} (give --token-file FILE)"),
            _ => bail!(error),
        }
    }

    async fn exchange(&self, server: &Server) -> Result<(StatusCode, Option<u64>, Bytes)> {
        let stream = Connector::new(server, QUEUE)?.connect().await?;
        let (mut sender, connection) = http1::handshake(stream).await?;
        // It ends with this call.
        let driver = tokio::spawn(connection);
        let mut call = Request::builder().method(&self.method).uri(&self.path).header(HOST, server.address.authority());
        if let Some(token) = server.token.as_ref().map(Token::header) {
            call = call.header(AUTHORIZATION, token);
        }
        if let Some((name, value)) = &self.condition {
            call = call.header(name, value);
        }
        let call = call.body(Full::new(Bytes::from(self.body.to_owned())))?;
        let none =
            || format!("{} gives no answer: does `ratelimit serve` run there, and is it https://?", server.address);
        let answer = sender.send_request(call).await.with_context(none)?;
        let (status, version) = (answer.status(), version(&answer));
        let body = Limited::new(answer.into_body(), ANSWER).collect().await.map_err(|error| anyhow!(error))?;
        driver.abort();
        Ok((status, version, body.to_bytes()))
    }
}

fn version<T>(answer: &Response<T>) -> Option<u64> {
    answer.headers().get(ETAG)?.to_str().ok()?.trim_matches('"').parse().ok()
}
