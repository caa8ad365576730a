//! Connections whose callers take no bytes of an answer at the moment. What waits for them is memory.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot::{Receiver, Sender, channel};

/// The number of connections of a socket that wait for their callers at a time.
const MOST: usize = 64;

/// The waits that have not ended, the longest first. Copies are about the same socket.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingWrites(Arc<Mutex<VecDeque<Sender<()>>>>);

/// The wait of a connection, until it is dropped. Its end as a future is that it has to go for others.
pub(super) type WaitingWrite = Receiver<()>;

impl WaitingWrites {
    /// Begins a wait. If too many connections wait, that with the longest wait has to go.
    pub(super) fn begin(&self) -> WaitingWrite {
        let (sender, receiver) = channel();
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.retain(|wait| !wait.is_closed());
        if waits.len() >= MOST {
            waits.pop_front();
        }
        waits.push_back(sender);
        receiver
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    #[test]
    fn the_longest_wait_ends_for_a_new_one_and_waits_that_are_over_count_for_nothing() {
        let waiting = WaitingWrites::default();
        let mut first = waiting.begin();
        let over: Vec<_> = (1..MOST).map(|_| waiting.begin()).collect();
        drop(over);
        let mut others: Vec<_> = (1..MOST).map(|_| waiting.begin()).collect();
        assert_eq!(first.try_recv(), Err(TryRecvError::Empty));
        let mut newest = waiting.begin();
        assert_eq!(first.try_recv(), Err(TryRecvError::Closed));
        assert!(others.iter_mut().chain([&mut newest]).all(|wait| wait.try_recv() == Err(TryRecvError::Empty)));
    }
}
