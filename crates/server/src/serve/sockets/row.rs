//! Connections in the order in which they began, so that the oldest ends for a new one.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::task::AbortHandle;

/// The connections that have not ended, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Row(Mutex<VecDeque<AbortHandle>>);

impl Row {
    /// Adds a new connection. If there is no place for another one, the oldest ends.
    pub(super) fn add(&self, begun: AbortHandle, is_full: bool) {
        let mut row = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        row.retain(|connection| !connection.is_finished());
        if is_full && let Some(oldest) = row.pop_front() {
            oldest.abort();
        }
        row.push_back(begun);
    }
}
