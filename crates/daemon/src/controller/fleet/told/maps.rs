//! The maps of the instance, which one thread at a time changes on behalf of the fleet.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ratelimit_dataplane::Error;
use tokio::{sync::Mutex, task::spawn_blocking};

/// The maps of the instance with these pins. Copies take turns.
#[derive(Clone)]
pub(in crate::controller::fleet) struct Maps {
    pins: PathBuf,
    turn: Arc<Mutex<()>>,
}

impl Maps {
    pub(in crate::controller::fleet) fn of(pins: &Path) -> Self {
        Self { pins: pins.to_owned(), turn: Arc::default() }
    }

    pub(super) fn pins(&self) -> &Path {
        &self.pins
    }

    /// Returns the error of work whose thread has failed.
    pub(super) fn gone(&self) -> Error {
        Error::NotAttached(self.pins.clone())
    }

    /// Does `work` on a thread, because it waits for the lock of the instance. It begins when earlier work has ended, also
    /// work that is not awaited any more. Returns None if the thread fails.
    pub(super) async fn with<T: Send + 'static>(&self, work: impl FnOnce(&Path) -> T + Send + 'static) -> Option<T> {
        let (turn, pins) = (Arc::clone(&self.turn).lock_owned().await, self.pins.clone());
        let work = move || {
            let outcome = work(&pins);
            drop(turn);
            outcome
        };
        spawn_blocking(work).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_that_is_not_awaited_any_more_ends_before_other_work_begins() {
        let maps = Maps::of(Path::new("/nowhere"));
        let (done, all_done) = mpsc::channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (go_on, is_to_go_on) = mpsc::channel();
        let of_first = done.clone();
        let first = maps.with(move |_| {
            begin.send(()).unwrap();
            is_to_go_on.recv().unwrap();
            of_first.send("first").unwrap();
        });
        tokio::select! {
            _ = first => panic!("it has not begun"),
            outcome = begun => outcome.unwrap(),
        }
        let second = tokio::spawn({
            let maps = maps.clone();
            async move { maps.with(move |_| done.send("second").unwrap()).await }
        });
        tokio::task::yield_now().await;
        assert!(all_done.try_recv().is_err() && !second.is_finished());
        go_on.send(()).unwrap();
        second.await.unwrap();
        assert_eq!(all_done.try_iter().collect::<Vec<_>>(), ["first", "second"]);
    }
}
