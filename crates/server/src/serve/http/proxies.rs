//! Questions of proxies, as headers.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use percent_encoding::{AsciiSet, percent_encode};
use ratelimit_client::wire;
use ratelimit_limiter::{ADDRESS, Decision};

use super::{answer::answer, check::address, problem::bad};
use crate::serve::{
    access::Peer,
    question::{Attributes, Question},
    service::Service,
    sockets::UNREADABLE,
    stops,
};

/// Headers with this prefix are attributes, for nginx.
const ATTRIBUTE: &str = "x-attribute-";
/// The header with the cost of a request, for nginx.
const COST: &str = "x-cost";
/// The headers with the ends of the client's connection, for nginx.
const ENDS: [&str; 2] = ["x-connection-local", "x-connection-remote"];
/// The header that tells nginx the status to answer.
const STATUS: HeaderName = HeaderName::from_static("x-ratelimit-status");

/// Answers `auth_request`, which knows 2xx, 401 and 403 only.
pub(super) async fn nginx(
    State(service): State<Arc<Service>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Response {
    let mut question = Question::of_proxy(Attributes::new());
    for (name, value) in &headers {
        let Some(name) = name.as_str().strip_prefix(ATTRIBUTE) else { continue };
        match text(name, value) {
            Some(value) => {
                let value = Question::spelled(name, value, service.merges_paths());
                question.attributes.insert(name.to_owned(), value);
            }
            None => question.unreadable += 1,
        }
    }
    if let Some(cost) = headers.get(COST) {
        match cost.to_str().ok().filter(|cost| !cost.is_empty() && cost.bytes().all(|byte| byte.is_ascii_digit())) {
            // No limit admits more than the largest cost.
            Some(cost) => question.cost = cost.parse().unwrap_or(u32::MAX),
            None => question.unreadable += 1,
        }
    }
    let [local, remote] = ENDS.map(|name| headers.get(name).map(|value| value.to_str().unwrap_or_default()));
    question.connection = stops::of_texts(local, remote).into();
    decide(&service, question.from(address(peer)), |decision| {
        let mut headers = wire::headers(decision, wire::retry_after_ms(decision), service.style());
        headers.insert(STATUS, HeaderValue::from(wire::status(decision).as_u16()));
        (if decision.is_allowed { StatusCode::NO_CONTENT } else { StatusCode::FORBIDDEN }, headers).into_response()
    })
}

/// Answers forwardAuth of Traefik, which passes 429 on.
pub(super) async fn traefik(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    let mut question = Question::of_proxy(Attributes::new());
    let mut insert = |name: &str, value: Option<Option<String>>| match value {
        Some(Some(value)) => {
            let value = Question::spelled(name, value, service.merges_paths());
            question.attributes.insert(name.to_owned(), value);
        }
        Some(None) => question.unreadable += 1,
        None => {}
    };
    // The last address is the one that Traefik has seen itself. Elements without text are none (RFC 9110).
    let lines = headers.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes);
    let mut elements = lines.flat_map(|line| line.split(|byte| *byte == b','));
    let ip = elements.rfind(|element| !element.trim_ascii().is_empty());
    insert(ADDRESS, ip.map(readable));
    for (name, header) in [("method", "x-forwarded-method"), ("host", "x-forwarded-host"), ("path", "x-forwarded-uri")]
    {
        // Traefik replaces what a client sends, or its line comes last.
        insert(name, headers.get_all(header).iter().next_back().map(|value| text(name, value)));
    }
    // Traefik does not tell the port of the client.
    decide(&service, question, |decision| answer(decision, service.style()))
}

fn decide(service: &Service, question: Question, answer: impl FnOnce(&Decision<'_>) -> Response) -> Response {
    service.decide(question, answer).unwrap_or_else(|error| bad(service, error))
}

/// Returns the text of an attribute. None if its client has put control bytes into it. A path is always a text, because the
/// request is served by it.
fn text(name: &str, value: &HeaderValue) -> Option<String> {
    let bytes = value.as_bytes();
    // Bytes beyond ASCII are written as escapes, which is what they are in a path.
    if name == "path" { Some(percent_encode(bytes, &AsciiSet::EMPTY).to_string()) } else { readable(bytes) }
}

fn readable(bytes: &[u8]) -> Option<String> {
    (!bytes.contains(&UNREADABLE)).then(|| String::from_utf8_lossy(bytes).into_owned())
}
