//! One request to the daemon.

use super::asked::Place;

/// A request to the daemon.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) line: Vec<u8>,
    pub(super) place: Place,
    /// When it was made, by the clock of the limiter.
    pub(super) at: u64,
}
