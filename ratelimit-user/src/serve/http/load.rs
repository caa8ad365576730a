//! The load of the server, which every answer reports.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::{http::HeaderValue, response::Response};

use crate::wire::LOAD;

/// The number of calls that the server is answering.
#[derive(Debug, Clone, Default)]
pub(super) struct Load(Arc<AtomicU64>);

/// A call that the server is answering, which counts until it is dropped.
#[derive(Debug)]
pub(super) struct Call<'a>(&'a AtomicU64);

impl Load {
    /// Counts a call.
    pub(super) fn begin(&self) -> Call<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Call(&self.0)
    }
}

impl Call<'_> {
    /// Adds the header with the number of calls, which includes this one.
    pub(super) fn report(&self, mut answer: Response) -> Response {
        answer.headers_mut().insert(LOAD, HeaderValue::from(self.0.load(Ordering::Relaxed)));
        answer
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
