//! Questions and answers as JSON.

use std::{error::Error, sync::Arc};

use axum::{
    Json,
    body::{Body, Bytes, to_bytes},
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;

use super::{
    answer::answer,
    problem::{bad, problem},
};
use crate::{
    check::Decision,
    serve::{
        question::{Batch, Question},
        service::Service,
    },
    text::{excerpt::message, plain},
    wire::{self, BODY, Replies, Reply},
};

/// Decides one request.
pub(super) async fn check(State(service): State<Arc<Service>>, body: Body) -> Response {
    let body = match whole(&service, body).await {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let answer = |decision: &Decision<'_>| answer(decision, service.style());
    let answer = read::<Question>(&body).and_then(|question| service.decide(question, answer));
    answer.unwrap_or_else(|error| bad(&service, error))
}

/// Decides several requests.
pub(super) async fn batch(State(service): State<Arc<Service>>, body: Body) -> Response {
    let body = match whole(&service, body).await {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let answer = read::<Batch>(&body).and_then(|batch| {
        service.decide_all(batch, |decisions| {
            let Some(decision) = wire::of_all(decisions) else { return StatusCode::OK.into_response() };
            let headers = wire::headers(decision, wire::retry_after_ms(decision), service.style());
            let replies =
                Replies { allowed: decision.is_allowed, decisions: decisions.iter().map(Reply::of).collect() };
            (wire::status(decision), headers, Json(replies)).into_response()
        })
    });
    answer.unwrap_or_else(|error| bad(&service, error))
}

/// Returns a body that has arrived as a whole.
async fn whole(service: &Service, body: Body) -> Result<Bytes, Box<Response>> {
    to_bytes(body, BODY).await.map_err(|error| {
        service.counts.count_bad();
        let is_too_large = error.source().is_some_and(<dyn Error>::is::<LengthLimitError>);
        let (status, text) = match is_too_large {
            true => (StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {BODY} bytes")),
            false => (StatusCode::BAD_REQUEST, "the body has not arrived as a whole".to_owned()),
        };
        Box::new(problem(status, text))
    })
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| message(&plain::json(&error)))
}
