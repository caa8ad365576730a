//! The HTTP interface: which call asks what, within bounds.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Request, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::CONTENT_TYPE},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::{
    answer::{self, Reply},
    service::Service,
};
use crate::check::{ADDRESS, Decision};

/// The largest body in bytes.
const BODY: usize = 64 << 10;
/// The most attributes of a request.
const ATTRIBUTES: usize = 32;
/// The most requests of a batch.
const BATCH: usize = 100;
/// The time in which a call must arrive and be answered.
const TIME: Duration = Duration::from_secs(5);
/// Headers with this prefix are attributes, for nginx.
const ATTRIBUTE: &str = "x-attribute-";
/// The header with the cost of a request, for nginx.
const COST: &str = "x-cost";
/// The header that tells nginx the status to answer.
const STATUS: HeaderName = HeaderName::from_static("x-ratelimit-status");

/// One request to decide.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    attributes: BTreeMap<String, String>,
    #[serde(default = "one")]
    cost: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    requests: Vec<Question>,
}

#[derive(Debug, Serialize)]
struct Replies {
    allowed: bool,
    decisions: Vec<Reply>,
}

/// A call that cannot be decided.
#[derive(Debug, Serialize)]
struct Problem {
    error: String,
}

/// The body of a call, or why it has not arrived.
type Body = Result<Bytes, BytesRejection>;

fn one() -> u32 {
    1
}

/// Returns the routes.
pub(super) fn routes(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/check", post(check))
        .route("/v1/check/batch", post(batch))
        .route("/v1/nginx", any(nginx))
        .route("/v1/traefik", any(traefik))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "not found: POST /v1/check asks about a request") })
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn(in_time))
        .with_state(service)
}

async fn in_time(request: Request, next: Next) -> Response {
    let late = || problem(StatusCode::REQUEST_TIMEOUT, "the call took longer than 5 seconds");
    timeout(TIME, next.run(request)).await.unwrap_or_else(|_| late())
}

async fn check(State(service): State<Arc<Service>>, body: Body) -> Response {
    let body = match whole(&service, body) {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    decide(&service, read(&body), answer::answer)
}

/// Decides a question that could be read, and answers in the words of the caller.
fn decide(
    service: &Service,
    question: Result<Question, String>,
    answer: impl FnOnce(&Decision<'_>) -> Response,
) -> Response {
    let Question { attributes, cost } = match question.and_then(within_bounds) {
        Ok(question) => question,
        Err(error) => return bad(service, error),
    };
    let limiter = service.limiter();
    let decision = limiter.check(&attributes, cost, service.now());
    service.counts.count(&decision);
    answer(&decision)
}

async fn batch(State(service): State<Arc<Service>>, body: Body) -> Response {
    let pair = |question| within_bounds(question).map(|Question { attributes, cost }| (attributes, cost));
    let body = match whole(&service, body) {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let requests = read::<Batch>(&body).and_then(|batch| match batch.requests.len() {
        1..=BATCH => batch.requests.into_iter().map(pair).collect::<Result<Vec<_>, _>>(),
        _ => Err(format!("requests: expected 1 to {BATCH} of them")),
    });
    let requests = match requests {
        Ok(requests) => requests,
        Err(error) => return bad(&service, error),
    };
    let limiter = service.limiter();
    let decisions = limiter.check_all(&requests, service.now());
    let Some(last) = decisions.last() else { return bad(&service, "requests: there is none".to_owned()) };
    // What a refused batch has charged was given back.
    let counted = if last.is_allowed { &decisions[..] } else { std::slice::from_ref(last) };
    counted.iter().for_each(|decision| service.counts.count(decision));
    let replies: Vec<_> = decisions.iter().map(Reply::of).collect();
    let headers = replies.last().map(|reply| answer::headers(last, reply)).unwrap_or_default();
    (answer::status(last), headers, Json(Replies { allowed: last.is_allowed, decisions: replies })).into_response()
}

/// Answers `auth_request`, which knows 2xx, 401 and 403 only.
async fn nginx(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    let mut question = Question { attributes: BTreeMap::new(), cost: 1 };
    for (name, value) in &headers {
        let Some(name) = name.as_str().strip_prefix(ATTRIBUTE) else { continue };
        let value = of_proxy(name, String::from_utf8_lossy(value.as_bytes()).into_owned());
        question.attributes.insert(name.to_owned(), value);
    }
    if let Some(cost) = headers.get(COST) {
        match cost.to_str().ok().and_then(|cost| cost.parse().ok()) {
            Some(cost) => question.cost = cost,
            None => return bad(&service, format!("{COST}: expected a whole number")),
        }
    }
    decide(&service, Ok(question), |decision| {
        let mut headers = answer::headers(decision, &Reply::of(decision));
        headers.insert(STATUS, HeaderValue::from(answer::status(decision).as_u16()));
        (if decision.is_allowed { StatusCode::NO_CONTENT } else { StatusCode::FORBIDDEN }, headers).into_response()
    })
}

/// Answers forwardAuth of Traefik, which passes 429 on.
async fn traefik(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    // The last address is the one that Traefik has seen itself.
    let ip = text("x-forwarded-for").and_then(|all| all.rsplit(',').next().map(|ip| ip.trim().to_owned()));
    let (method, host, path) = (text("x-forwarded-method"), text("x-forwarded-host"), text("x-forwarded-uri"));
    let known = [("ip", ip), ("method", method), ("host", host), ("path", path)];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), of_proxy(name, value?))));
    let attributes = known.collect();
    decide(&service, Ok(Question { attributes, cost: 1 }), answer::answer)
}

/// Returns an attribute as rules have it: a host in small letters without port, and a path without its query.
fn of_proxy(name: &str, value: String) -> String {
    match name {
        "host" => {
            let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
            let host = value.rsplit_once(':').filter(|(_, end)| is_port(end)).map_or(value.as_str(), |(host, _)| host);
            host.trim_end_matches('.').to_ascii_lowercase()
        }
        "path" => value.split('?').next().unwrap_or_default().to_owned(),
        _ => value,
    }
}

async fn health(State(service): State<Arc<Service>>) -> Response {
    if service.is_ending() {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response();
    }
    "ok\n".into_response()
}

async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], service.counts.page(&service.limiter()))
}

/// Returns a body that has arrived as a whole.
fn whole(service: &Service, body: Body) -> Result<Bytes, Box<Response>> {
    body.map_err(|rejection| {
        service.counts.count_bad();
        let text = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => format!("a body has at most {BODY} bytes"),
            _ => rejection.body_text(),
        };
        Box::new(problem(rejection.status(), text))
    })
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn within_bounds(question: Question) -> Result<Question, String> {
    if question.attributes.len() > ATTRIBUTES {
        return Err(format!("attributes: at most {ATTRIBUTES} are possible"));
    }
    // As text, it would be another client with each port.
    if question.attributes.get(ADDRESS).is_some_and(|ip| ip.parse::<IpAddr>().is_err()) {
        return Err(format!("{ADDRESS}: expected an address without a port, such as 192.0.2.1 or 2001:db8::1"));
    }
    Ok(question)
}

fn bad(service: &Service, error: String) -> Response {
    service.counts.count_bad();
    problem(StatusCode::BAD_REQUEST, error)
}

fn problem(status: StatusCode, error: impl Into<String>) -> Response {
    (status, Json(Problem { error: error.into() })).into_response()
}
