//! The body of an answer.

use std::{
    io::{self, Read},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::{
    runtime::Runtime,
    time::{Instant, timeout_at},
};

use super::error::{FetchError, broken};

/// The body of an answer, which arrives while it is read. An error that is no [`FetchError`] does not occur.
pub struct Body {
    /// Also drives the connection. None only while this is dropped.
    runtime: Option<Runtime>,
    incoming: Incoming,
    chunk: Bytes,
    server: String,
    bounds: Bounds,
    received: u64,
}

/// The bounds of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) most: u64,
    pub(super) time: Duration,
    pub(super) end: Instant,
}

impl Body {
    pub(super) fn new(
        runtime: Runtime,
        incoming: Incoming,
        server: String,
        bounds: Bounds,
    ) -> Result<Self, FetchError> {
        if incoming.size_hint().lower() > bounds.most {
            runtime.shutdown_background();
            return Err(FetchError::Large(bounds.most));
        }
        Ok(Self { runtime: Some(runtime), incoming, chunk: Bytes::new(), server, bounds, received: 0 })
    }

    /// Returns the next bytes. None at the end.
    fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        let Some(runtime) = &self.runtime else { return Ok(None) };
        let Bounds { most, time, end } = self.bounds;
        loop {
            let incoming = &mut self.incoming;
            let frame = runtime.block_on(async { timeout_at(end, incoming.frame()).await });
            let Some(frame) = frame.map_err(|_| FetchError::Late(time))? else { return Ok(None) };
            let failed = |error: hyper::Error| broken(&self.server, &error);
            // Trailers say nothing about the body.
            let Ok(bytes) = frame.map_err(failed)?.into_data() else { continue };
            self.received = self.received.saturating_add(bytes.len() as u64);
            return if self.received > most { Err(FetchError::Large(most)) } else { Ok(Some(bytes)) };
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.next().map_err(io::Error::other)? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = self.chunk.len().min(buffer.len());
        let (taken, into) = (self.chunk.split_to(count), buffer.get_mut(..count));
        into.unwrap_or_default().copy_from_slice(&taken);
        Ok(count)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // A search for an address of a host cannot be ended. It must not hold up the caller.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
