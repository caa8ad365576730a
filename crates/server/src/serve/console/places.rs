//! Who may work at a time, so that no visitor keeps others from theirs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Previews and readers of the log at a time.
const READERS: usize = 2;
/// Changes at a time. They take turns anyway.
const WRITERS: usize = 2;
/// Calls of one caller that wait or work, for each kind of work.
const OF_CALLER: usize = 8;

/// What a visitor wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// To read the log or to replay requests, one after the other.
    Read,
    /// To change a rule.
    Change,
}

/// A caller has too many calls that wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Busy;

/// Places for work.
#[derive(Debug)]
pub(super) struct Places {
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    callers: Arc<Callers>,
}

type Callers = Mutex<HashMap<(Work, String), Turns>>;

/// The calls of a caller.
#[derive(Debug)]
struct Turns {
    calls: usize,
    turn: Arc<Semaphore>,
}

/// A place for work. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _turn: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
    _call: Registered,
}

/// A call that counts for its caller.
#[derive(Debug)]
struct Registered {
    callers: Arc<Callers>,
    key: (Work, String),
}

impl Default for Places {
    fn default() -> Self {
        let [readers, writers] = [READERS, WRITERS].map(|places| Arc::new(Semaphore::new(places)));
        Self { readers, writers, callers: Arc::default() }
    }
}

impl Places {
    /// Waits for a place. A caller takes one place of a kind at a time.
    pub(super) async fn take(&self, work: Work, caller: &str) -> Result<Place, Busy> {
        let (call, turn) = self.register((work, caller.to_owned())).ok_or(Busy)?;
        let all = match work {
            Work::Read => &self.readers,
            Work::Change => &self.writers,
        };
        let turn = turn.acquire_owned().await.map_err(|_| Busy)?;
        let place = Arc::clone(all).acquire_owned().await.map_err(|_| Busy)?;
        Ok(Place { _turn: turn, _place: place, _call: call })
    }

    fn register(&self, key: (Work, String)) -> Option<(Registered, Arc<Semaphore>)> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = callers.entry(key.clone()).or_insert_with(|| Turns { calls: 0, turn: Arc::new(Semaphore::new(1)) });
        if turns.calls >= OF_CALLER {
            return None;
        }
        turns.calls += 1;
        Some((Registered { callers: Arc::clone(&self.callers), key }, Arc::clone(&turns.turn)))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = callers.get_mut(&self.key) {
            turns.calls -= 1;
            if turns.calls == 0 {
                callers.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    #[test]
    fn a_caller_with_many_calls_keeps_nobody_from_previews_and_changes() {
        let places = Places::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> = (0..OF_CALLER).map(|_| Box::pin(places.take(Work::Read, "team-a"))).collect();
        let mut working: Vec<_> = waiting.iter_mut().map(|call| call.as_mut().poll(&mut context)).collect();
        assert_eq!(working.iter().filter(|call| call.is_ready()).count(), 1);
        let mut one = |work: Work, caller: &str| match pin!(places.take(work, caller)).poll(&mut context) {
            Poll::Ready(place) => place.map(Some),
            Poll::Pending => Ok(None),
        };
        assert_eq!(one(Work::Read, "team-a").unwrap_err(), Busy);
        let other = one(Work::Read, "team-b").unwrap();
        assert!(other.is_some());
        assert!(one(Work::Read, "team-c").unwrap().is_none(), "three work at a time");
        assert!(one(Work::Change, "team-a").unwrap().is_some());
        assert!(one(Work::Change, "team-b").unwrap().is_some());
        // What has ended, or was given up, leaves nothing behind.
        working.clear();
        waiting.clear();
        drop(other);
        assert!(places.callers.lock().unwrap().is_empty());
        assert_eq!((places.readers.available_permits(), places.writers.available_permits()), (READERS, WRITERS));
    }
}
