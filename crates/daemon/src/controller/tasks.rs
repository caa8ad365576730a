//! A thread for the tasks of a service.

use std::{convert::Infallible, sync::mpsc, thread, time::Duration};

use anyhow::Result;
use tokio::{runtime::Handle, sync::oneshot, task::AbortHandle};

/// The longest wait until a task has ended.
const END_TIME: Duration = Duration::from_secs(1);

/// A thread that runs tasks until this is dropped.
pub struct Tasks {
    handle: Handle,
    /// The thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

/// A task, which ends when this is dropped.
pub struct Task {
    abort: AbortHandle,
    /// Nothing is sent. The sender is dropped when the task has ended.
    ended: mpsc::Receiver<Infallible>,
}

impl Tasks {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the system has no thread or no file for it.
    pub fn start(name: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let runs = move || {
            // Nothing is sent. The wait ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new().name(name.to_owned()).spawn(runs)?;
        Ok(Self { handle, _stop: stop })
    }

    /// Runs a task until it or the thread ends.
    pub fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// Runs a task that can be ended before.
    pub fn begin(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        let task = self.handle.spawn(task);
        let (abort, (end, ended)) = (task.abort_handle(), mpsc::channel());
        self.handle.spawn(async move {
            let _ = task.await;
            drop(end);
        });
        Task { abort, ended }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.abort.abort();
        let _ = self.ended.recv_timeout(END_TIME);
    }
}
