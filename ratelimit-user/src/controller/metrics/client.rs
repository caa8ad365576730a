//! Asks the daemon for its numbers.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    time::Duration,
};

use crate::controller::daemon::socket::{self, SocketError};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The numbers of the daemon of the instance with these pins: text for Prometheus, or JSON.
///
/// # Errors
///
/// [`SocketError`] where there is no daemon, or no answer.
pub fn fetch(pins: &Path, json: bool) -> Result<String, SocketError> {
    let mut stream = socket::connect_to_metrics(pins)?;
    let accepted = if json { "application/json" } else { "text/plain" };
    let mut answer = String::new();
    // Of this version every answer comes in one piece, and ends with the connection.
    let request = format!("GET /metrics HTTP/1.0\r\nHost: ratelimit\r\nAccept: {accepted}\r\n\r\n");
    let read = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.write_all(request.as_bytes()))
        .and_then(|()| stream.read_to_string(&mut answer));
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let is_good = head.lines().next().is_some_and(|status| status.split(' ').nth(1) == Some("200"));
    read.ok().filter(|_| is_good).map(|_| text.to_owned()).ok_or(SocketError::NoAnswer)
}
