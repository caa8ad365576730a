//! Forms and queries, within bounds.

use axum::{body::Body, http::StatusCode};
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;

use crate::serve::question::TIME;

/// The most bytes of a form: more than a rule can have.
const BYTES: usize = 64 << 10;
/// The most fields. Further ones are left out.
const FIELDS: usize = 64;

/// The fields of a form or a query.
#[derive(Debug, Default)]
pub(in crate::serve::console) struct Form(Vec<(String, String)>);

impl Form {
    pub(in crate::serve::console) fn parse(text: &[u8]) -> Self {
        Self(
            form_urlencoded::parse(text)
                .take(FIELDS)
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// Returns the value of a field, or an empty text.
    pub(in crate::serve::console) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(this, _)| this == name).map_or("", |(_, value)| value)
    }

    /// Returns whether the form has a field with a text.
    pub(in crate::serve::console) fn has(&self, name: &str) -> bool {
        !self.get(name).is_empty()
    }

    /// Returns a field that is a number.
    pub(in crate::serve::console) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok()
    }
}

/// Reads the body of a call.
pub(in crate::serve::console) async fn read(body: Body) -> Result<Form, StatusCode> {
    match timeout(TIME, Limited::new(body, BYTES).collect()).await {
        Ok(Ok(body)) => Ok(Form::parse(&body.to_bytes())),
        Ok(Err(_)) => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}
