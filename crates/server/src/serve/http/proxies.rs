//! Questions of proxies, as headers.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use ratelimit_client::wire;
use ratelimit_limiter::Decision;

use super::{answer::answer, check::address, problem::bad};
use crate::serve::{
    access::Peer,
    question::{Named, Question},
    service::Service,
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
    let mut question = Question { attributes: BTreeMap::new(), cost: 1, connection: Named::Nothing };
    for (name, value) in &headers {
        let Some(name) = name.as_str().strip_prefix(ATTRIBUTE) else { continue };
        let value = Question::of_proxy(name, String::from_utf8_lossy(value.as_bytes()).into_owned());
        question.attributes.insert(name.to_owned(), value);
    }
    if let Some(cost) = headers.get(COST) {
        match cost.to_str().ok().and_then(|cost| cost.parse().ok()) {
            Some(cost) => question.cost = cost,
            None => return bad(&service, format!("{COST}: expected a whole number")),
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
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    // The last address is the one that Traefik has seen itself.
    let ip = text("x-forwarded-for").and_then(|all| all.rsplit(',').next().map(|ip| ip.trim().to_owned()));
    let (method, host, path) = (text("x-forwarded-method"), text("x-forwarded-host"), text("x-forwarded-uri"));
    let known = [("ip", ip), ("method", method), ("host", host), ("path", path)];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Question::of_proxy(name, value?))));
    let attributes = known.collect();
    // Traefik does not tell the port of the client.
    let question = Question { attributes, cost: 1, connection: Named::Nothing };
    decide(&service, question, |decision| answer(decision, service.style()))
}

fn decide(service: &Service, question: Question, answer: impl FnOnce(&Decision<'_>) -> Response) -> Response {
    service.decide(question, answer).unwrap_or_else(|error| bad(service, error))
}
