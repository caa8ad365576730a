//! Requests to the process that waits.

use std::path::Path;

use crate::controller::socket::{
    client::{SocketError, ask},
    folder::CONFIRM,
    request::{Reply, Request},
};

/// Confirms the attach that waits. Returns whether there was one.
///
/// # Errors
///
/// Fails with the error of the system.
pub fn confirm(pins: &Path) -> Result<bool, SocketError> {
    match ask(pins, CONFIRM, Request::Confirm) {
        Ok(Reply::Done(_)) => Ok(true),
        // The confirmation may have come just too late.
        Err(SocketError::NoDaemon(_) | SocketError::NoAnswer) => Ok(false),
        Ok(_) => Err(SocketError::NoAnswer),
        Err(error) => Err(error),
    }
}

/// Tells the process that waits that its instance may be removed, and returns when that process holds nothing of it.
pub fn notify_removed(pins: &Path) {
    // A process that does not answer ends when its time is over.
    let _ = ask(pins, CONFIRM, Request::Gone);
}

/// Returns the seconds until the attach that waits is undone.
#[must_use]
pub fn seconds_left(pins: &Path) -> Option<u64> {
    match ask(pins, CONFIRM, Request::Left) {
        Ok(Reply::Left(seconds)) => Some(seconds),
        _ => None,
    }
}
