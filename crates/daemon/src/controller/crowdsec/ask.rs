//! Asks the local API.

use std::time::Duration;

use hyper::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use ratelimit_base::fetch::{FetchError, Get};

use crate::{
    config::daemon::crowdsec::CrowdSec,
    crowdsec::{Answer, AnswerError, Question},
};

/// The header with the key.
const KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The largest answer in bytes: half a million decisions.
const MOST: u64 = 128 << 20;
/// The time until the end of an answer. The database of the API needs a second for a hundred thousand decisions.
const TIME: Duration = Duration::from_secs(60);

/// Reason why there is no answer to use.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// The API cannot be reached.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The key is none of the API.
    #[error("the API refuses the key: write one of `cscli bouncers add NAME` into the key-file, and reload")]
    Key,
    /// The API does not answer the question.
    #[error("the API answers with status {0}: is it CrowdSec 1.4 or later?")]
    Status(u16),
    /// The answer is no list of decisions.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The system has no thread for the question.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
}

/// Asks once. It blocks its thread.
///
/// # Errors
///
/// Any [`AskError`]. The API then takes changes for told that were not read, so the next question is for all decisions.
pub(super) fn ask(table: &CrowdSec, question: Question) -> Result<Answer, AskError> {
    let mut headers = HeaderMap::new();
    // A key file has nothing that a header cannot have.
    let mut key = HeaderValue::from_str(table.key.text()).map_err(|_| AskError::Key)?;
    key.set_sensitive(true);
    headers.insert(KEY, key);
    let address = table.question(question).clone();
    let get = Get { address, headers, trust: table.trust.clone(), redirects: 0, most: MOST, time: TIME };
    let answer = get.send()?;
    match answer.status {
        StatusCode::OK => Ok(Answer::read(answer.body, question)?),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(AskError::Key),
        status => Err(AskError::Status(status.as_u16())),
    }
}
