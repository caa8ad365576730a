//! Questions and answers as JSON.

use std::{error::Error, sync::Arc};

use axum::{
    Extension, Json,
    body::{Body, Bytes, to_bytes},
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use http_body_util::LengthLimitError;
use ratelimit_base::text::{excerpt::message, object::from_slice, plain};
use ratelimit_client::wire::{self, BODY, Replies, Reply};
use ratelimit_limiter::Decision;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::{
    answer::answer,
    problem::{bad, problem},
};
use crate::serve::{
    access::Peer,
    question::{Batch, Question},
    service::Service,
};

/// Decides one request.
pub(super) async fn check(State(service): State<Arc<Service>>, peer: Option<Extension<Peer>>, body: Body) -> Response {
    let body = match whole(&service, body).await {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let answer = |decision: &Decision<'_>| answer(decision, service.style());
    let question =
        read::<Question>(&body, Question::NAME, Question::EXAMPLE).map(|question| question.from(address(peer)));
    let answer = question.and_then(|question| service.decide(question, answer));
    answer.unwrap_or_else(|error| bad(&service, error))
}

/// Decides several requests.
pub(super) async fn batch(State(service): State<Arc<Service>>, peer: Option<Extension<Peer>>, body: Body) -> Response {
    let body = match whole(&service, body).await {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let batch = read::<Batch>(&body, Batch::NAME, Batch::EXAMPLE).map(|batch| batch.from(address(peer)));
    let answer = batch.and_then(|batch| {
        service.decide_all(batch, |decisions| {
            let Some(decision) = wire::of_all(decisions) else { return StatusCode::OK.into_response() };
            let replies: Vec<_> = decisions.iter().map(Reply::of).collect();
            // The longest time in the body, which differs from the decision's by its random part.
            let longest = replies.iter().filter_map(|reply| reply.retry_after_ms).max();
            let wait = wire::retry_after_ms(decision).and(longest);
            let headers = wire::headers(decision, wait, service.style());
            let replies = Replies { allowed: decision.is_allowed, decisions: replies };
            (wire::status(decision), headers, Json(replies)).into_response()
        })
    });
    answer.unwrap_or_else(|error| bad(&service, error))
}

/// Returns the address of a caller. Callers of a Unix socket have none.
pub(super) fn address(peer: Option<Extension<Peer>>) -> Option<Peer> {
    peer.map(|Extension(peer)| peer)
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

fn read<T: DeserializeOwned>(body: &[u8], name: &'static str, example: &str) -> Result<T, String> {
    let begins_as_object = body.trim_ascii_start().starts_with(b"{");
    from_slice(body, name).map_err(|error| match error.classify() {
        // The fields of a form, for example.
        Category::Syntax | Category::Eof if !begins_as_object => {
            format!("the body must be a JSON object such as {example}")
        }
        _ => message(&plain::json(&error)),
    })
}
