//! Requests the daemon's metrics.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    time::Duration,
};

use crate::controller::socket::client::{SocketError, connect_to_metrics};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the metrics from the daemon of the instance with these pins, as text for Prometheus or as JSON.
///
/// # Errors
///
/// Fails with [`SocketError`] if there is no daemon, or no answer.
pub fn fetch(pins: &Path, json: bool) -> Result<String, SocketError> {
    let mut stream = connect_to_metrics(pins)?;
    let accepted = if json { "application/json" } else { "text/plain" };
    let mut answer = String::new();
    // In HTTP/1.0 an answer has no chunks, and ends with the connection.
    let request = format!("GET /metrics HTTP/1.0\r\nHost: ratelimit\r\nAccept: {accepted}\r\n\r\n");
    let read = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.write_all(request.as_bytes()))
        .and_then(|()| stream.read_to_string(&mut answer));
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let is_good = head.lines().next().is_some_and(|status| status.split(' ').nth(1) == Some("200"));
    read.ok().filter(|_| is_good).map(|_| text.to_owned()).ok_or(SocketError::NoAnswer)
}
