//! The rules service: callers read and change rules.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
        header::{ETAG, IF_MATCH, IF_NONE_MATCH},
        request::Parts,
    },
    response::{IntoResponse as _, Response},
    routing::get,
};
use ratelimit_base::text::excerpt::message;
use serde::Serialize;
use serde_json::Value;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use super::{
    guard,
    problem::{expected as expected_method, problem},
};
use crate::{
    config::{json, written::Keys},
    serve::{
        access::{Need, Peer},
        question::TIME,
        rules::{Author, Book, Change, Done, RULE, RuleError},
        service::Service,
    },
};

/// The path below which all calls are about rules.
const RULES: &str = "/v1/rules";
/// The changes of an answer, without a number in the call.
const CHANGES: usize = 100;
/// The most changes of an answer.
const MOST_CHANGES: usize = 1_000;

/// Changes and readers of the log that wait at a time. Each can take a second if the engine of the fleet is slow.
const WAITING: usize = 16;

/// What the routes share.
#[derive(Clone)]
struct Api {
    service: Arc<Service>,
    book: Arc<Book>,
    waiting: Arc<Semaphore>,
}

impl Api {
    /// Takes a place among those that wait.
    fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let full = format!("nothing is changed: {WAITING} other calls of rules wait already: try again");
        let place = Arc::clone(&self.waiting).try_acquire_owned();
        place.map_err(|_| Box::new(problem(StatusCode::SERVICE_UNAVAILABLE, full)))
    }
}

/// An answer, if it is not the usual one.
type Refusal = Box<Response>;

#[derive(Debug, Serialize)]
struct Row<'a> {
    name: &'a str,
    /// None for a rule of the operator's file.
    version: Option<u64>,
    rule: &'a Keys,
}

#[derive(Debug, Serialize)]
struct Rules<'a> {
    rules: Vec<Row<'a>>,
}

#[derive(Debug, Serialize)]
struct Log {
    changes: Vec<Value>,
}

/// The result of a change.
#[derive(Debug, Serialize)]
struct Written<'a> {
    name: &'a str,
    /// None if the rule was only checked.
    version: Option<u64>,
}

/// A problem with the version that a rule has.
#[derive(Debug, Serialize)]
struct Other {
    error: String,
    version: Option<u64>,
}

/// Returns the routes.
pub(super) fn routes(service: Arc<Service>, book: Arc<Book>) -> Router {
    Router::new()
        .route(RULES, get(list).fallback(expected_method("GET")))
        .route("/v1/rules/log", get(log).fallback(expected_method("GET")))
        .route("/v1/rules/{name}", get(one).put(one).delete(one).fallback(expected_method("GET, PUT or DELETE")))
        .with_state(Api { service, book, waiting: Arc::new(Semaphore::new(WAITING)) })
}

async fn list(State(api): State<Api>, headers: HeaderMap) -> Response {
    let caller = match guard::allow(&api.service, &headers, Need::ReadSome) {
        Ok(caller) => caller,
        Err(answer) => return *answer,
    };
    let in_force = api.book.in_force();
    let readable = in_force.each().filter(|(name, ..)| caller.may(Need::Read(name)));
    let rules = readable.map(|(name, version, rule)| Row { name, version, rule }).collect();
    Json(Rules { rules }).into_response()
}

async fn log(State(api): State<Api>, uri: Uri, headers: HeaderMap) -> Response {
    if let Err(answer) = guard::allow(&api.service, &headers, Need::ReadAll) {
        return *answer;
    }
    let limit = match parameter(&uri, "limit") {
        Ok(None) => Some(CHANGES),
        Ok(Some(limit)) => limit.parse().ok().filter(|limit| (1..=MOST_CHANGES).contains(limit)),
        Err(answer) => return *answer,
    };
    let Some(limit) = limit else {
        return problem(StatusCode::BAD_REQUEST, format!("limit: expected a number from 1 to {MOST_CHANGES}"));
    };
    let place = match api.place() {
        Ok(place) => place,
        Err(answer) => return *answer,
    };
    let read = move || {
        let _place = place;
        api.book.log(limit)
    };
    match spawn_blocking(read).await {
        Ok(Ok(changes)) => Json(Log { changes }).into_response(),
        Ok(Err(error)) => refused(&error),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "the log cannot be read"),
    }
}

async fn one(State(api): State<Api>, Path(name): Path<String>, call: Request) -> Response {
    let (head, body) = call.into_parts();
    let done = match head.method {
        Method::PUT => put(api, name, head, body).await,
        Method::DELETE => delete(api, name, head).await,
        _ => read(&api, &name, &head.headers),
    };
    done.unwrap_or_else(|answer| *answer)
}

fn read(api: &Api, name: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
    guard::allow(&api.service, headers, Need::Read(name))?;
    let in_force = api.book.in_force();
    match in_force.get(name) {
        Some((version, keys)) => Ok((tag(version), Json(keys)).into_response()),
        // Whoever deletes or replaces a rule that is left out needs its version.
        None => Err(Box::new(
            (tag(in_force.version_left_out(name)), refused(&RuleError::Absent(name.to_owned()))).into_response(),
        )),
    }
}

async fn put(api: Api, name: String, head: Parts, body: Body) -> Result<Response, Refusal> {
    let author = author(&api, &name, &head)?;
    let is_dry = match parameter(&head.uri, "dry-run")? {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(bad("dry-run: expected true or false")),
    };
    let expected = if is_dry { None } else { expected(&head.headers)? };
    let keys = keys(body).await?;
    if is_dry {
        api.book.check(&name, &keys).map_err(|error| Box::new(refused(&error)))?;
        return Ok(Json(Written { name: &name, version: None }).into_response());
    }
    let status = if expected.is_none() { StatusCode::CREATED } else { StatusCode::OK };
    change(api, author, Change { name, expected, keys: Some(keys), undoes: None }, status).await
}

async fn delete(api: Api, name: String, head: Parts) -> Result<Response, Refusal> {
    let author = author(&api, &name, &head)?;
    parameter(&head.uri, "")?;
    let expected = expected(&head.headers)?;
    if expected.is_none() {
        return Err(bad("a rule is deleted by its version: send If-Match: \"VERSION\""));
    }
    change(api, author, Change { name, expected, keys: None, undoes: None }, StatusCode::OK).await
}

/// Returns whether a call of this path is about rules.
pub(super) fn is_about_rules(path: &str) -> bool {
    path.strip_prefix(RULES).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Makes a change. It goes on if the caller does not wait for its end.
async fn change(api: Api, author: Author, change: Change, status: StatusCode) -> Result<Response, Refusal> {
    let place = api.place()?;
    let done = spawn_blocking(move || {
        let _place = place;
        let done = api.book.change(&author, &change);
        (done, change)
    });
    match done.await {
        Ok((Ok(Done { version }), Change { name, keys, .. })) => {
            let tag = tag(keys.is_some().then_some(version));
            Ok((status, tag, Json(Written { name: &name, version: Some(version) })).into_response())
        }
        Ok((Err(error), _)) => Err(Box::new(refused(&error))),
        Err(_) => {
            Err(Box::new(problem(StatusCode::INTERNAL_SERVER_ERROR, "the change has failed: read the rule again")))
        }
    }
}

/// Returns who changes a rule, if the caller may.
fn author(api: &Api, name: &str, head: &Parts) -> Result<Author, Refusal> {
    let caller = guard::allow(&api.service, &head.headers, Need::Change(name))?;
    let address = head.extensions.get::<Peer>().map(|Peer(address)| *address);
    Ok(Author { token: caller.name().to_owned(), address })
}

/// Reads the version that the caller knows. None if the rule must not exist.
fn expected(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    match (headers.get(IF_MATCH), headers.get(IF_NONE_MATCH)) {
        (None, None) => {
            let error =
                "which version does this change? Send If-Match: \"VERSION\", or If-None-Match: * for a new rule";
            Err(Box::new(problem(StatusCode::PRECONDITION_REQUIRED, error)))
        }
        (None, Some(any)) if any.as_bytes() == b"*" => Ok(None),
        (Some(version), None) => {
            let version =
                version.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"')?.parse().ok());
            version.map(Some).ok_or_else(|| bad("If-Match: expected one version in quotes, such as \"17\""))
        }
        (None, Some(_)) => Err(bad("If-None-Match: expected *")),
        (Some(_), Some(_)) => Err(bad("If-Match and If-None-Match exclude each other: send one of them")),
    }
}

/// Reads a rule.
async fn keys(body: Body) -> Result<Keys, Refusal> {
    let body = timeout(TIME, to_bytes(body, RULE)).await;
    let body =
        body.map_err(|_| Box::new(problem(StatusCode::REQUEST_TIMEOUT, "the call took longer than 5 seconds")))?;
    let too_large = || problem(StatusCode::PAYLOAD_TOO_LARGE, format!("a rule has at most {RULE} bytes"));
    let body = body.map_err(|_| Box::new(too_large()))?;
    json::keys(&body).map_err(|problem| bad(format!("the rule is no JSON object of its keys: {}", message(&problem))))
}

/// Returns the value of the only parameter that a call may have.
fn parameter<'a>(uri: &'a Uri, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut found = None;
    for part in uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if key != name || found.is_some() {
            let expected = if name.is_empty() { "none" } else { name };
            return Err(bad(format!("unknown parameter: expected {expected}")));
        }
        found = Some(value);
    }
    Ok(found)
}

fn bad(error: impl Into<String>) -> Refusal {
    Box::new(problem(StatusCode::BAD_REQUEST, error))
}

/// Returns the header with a version.
fn tag(version: Option<u64>) -> Option<[(HeaderName, HeaderValue); 1]> {
    let value = HeaderValue::from_str(&format!("\"{}\"", version?)).ok()?;
    Some([(ETAG, value)])
}

fn refused(error: &RuleError) -> Response {
    let status = match error {
        RuleError::NoStore => StatusCode::NOT_IMPLEMENTED,
        RuleError::Operators(_) => StatusCode::CONFLICT,
        RuleError::Absent(_) => StatusCode::NOT_FOUND,
        RuleError::Wrong(_) => StatusCode::BAD_REQUEST,
        RuleError::Unwritable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        RuleError::Unreachable(_) | RuleError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        RuleError::Changed { current, .. } => {
            let other = Other { error: error.to_string(), version: *current };
            return (StatusCode::PRECONDITION_FAILED, tag(*current), Json(other)).into_response();
        }
    };
    problem(status, error.to_string())
}
