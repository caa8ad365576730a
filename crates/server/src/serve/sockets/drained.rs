//! Bodies of calls by HTTP/2: those that are answered before they have arrived, and the memory of long ones.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

/// The time in which the rest of a body must arrive.
const REST_TIME: Duration = Duration::from_secs(5);

/// The first bytes of a body, which are not counted. Usual messages have fewer.
const SHORT: usize = 16 << 10;
/// The most bytes behind those that a socket keeps at a time, for all callers together.
const LONG: usize = 128 << 20;

/// The bytes of long bodies that have arrived, and whose calls are not answered. Copies are about the same socket.
#[derive(Debug, Clone, Default)]
pub(super) struct LongBodies(Arc<AtomicUsize>);

/// A body whose rest is read and forgotten when nobody wants it. Its caller would get an error for each further part, and
/// after too many errors the connection ends, which a proxy has for all of its clients.
///
/// A body that is long ends if there is no memory for it.
pub(super) struct Drained {
    body: Option<Incoming>,
    long: LongBodies,
    arrived: usize,
    /// The bytes that count in `long`.
    counted: usize,
    /// The place of its call, which it keeps until the rest has arrived.
    place: Option<Arc<OwnedSemaphorePermit>>,
}

impl Drained {
    pub(super) fn new(body: Incoming, place: Arc<OwnedSemaphorePermit>, long: LongBodies) -> Self {
        Self { body: Some(body), long, arrived: 0, counted: 0, place: Some(place) }
    }

    /// Returns whether there is memory for a further part.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.arrived = self.arrived.saturating_add(bytes);
        let counted = self.arrived.saturating_sub(SHORT);
        let more = counted - self.counted;
        let LongBodies(all) = &self.long;
        let has_room = more == 0 || all.fetch_add(more, Ordering::Relaxed).saturating_add(more) <= LONG;
        self.counted = counted;
        has_room
    }

    /// Reads the rest of the body, and forgets it.
    fn drain(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        let place = self.place.take();
        tokio::spawn(async move {
            let rest = async { while body.frame().await.is_some_and(|part| part.is_ok()) {} };
            let _ = timeout(REST_TIME, rest).await;
            drop(place);
        });
    }
}

impl Body for Drained {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let part = ready!(Pin::new(body).poll_frame(context));
        let bytes = part.as_ref().and_then(|part| part.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        if !self.has_room(bytes) {
            self.drain();
            return Poll::Ready(None);
        }
        Poll::Ready(part)
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
        self.drain();
        let LongBodies(all) = &self.long;
        all.fetch_sub(self.counted, Ordering::Relaxed);
    }
}
