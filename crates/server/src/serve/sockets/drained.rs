//! Bodies of calls by HTTP/2 that are answered before they have arrived.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

/// The time in which the rest of a body must arrive.
const REST_TIME: Duration = Duration::from_secs(5);

/// A body whose rest is read and forgotten when nobody wants it. Its caller would get an error for each further part, and
/// after too many errors the connection ends, which a proxy has for all of its clients.
pub(super) struct Drained {
    body: Option<Incoming>,
    /// The place of its call, which it keeps until the rest has arrived.
    place: Option<Arc<OwnedSemaphorePermit>>,
}

impl Drained {
    pub(super) fn new(body: Incoming, place: Arc<OwnedSemaphorePermit>) -> Self {
        Self { body: Some(body), place: Some(place) }
    }
}

impl Body for Drained {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        let place = self.place.take();
        tokio::spawn(async move {
            let rest = async { while body.frame().await.is_some_and(|part| part.is_ok()) {} };
            let _ = timeout(REST_TIME, rest).await;
            drop(place);
        });
    }
}
