//! The thread that answers applications, and changes of its socket.

use std::{
    convert::Infallible,
    os::unix::net::UnixListener as Listener,
    path::Path,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use anyhow::Result;
use tokio::{
    net::UnixListener,
    runtime::Handle,
    sync::{mpsc::unbounded_channel, oneshot},
    task::AbortHandle,
};

use super::{
    counts::Shown,
    desk::Desk,
    judge::Judge,
    server::serve,
    socket::{self, Bound, File, Group},
    writer::Writer,
};
use crate::{
    config::daemon::stops::Stops,
    controller::notify::journal::{Level, say},
    stops::Stop,
    text::prefix::Prefix,
};

/// The longest wait until a socket is closed.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Answers applications until it is dropped.
pub(crate) struct Service {
    judge: Arc<Mutex<Judge>>,
    desk: Desk,
    shown: Shown,
    handle: Handle,
    open: Option<Open>,
    /// The thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

/// The table of a file. Every step that can fail is done.
pub(crate) struct Prepared {
    stops: Option<Stops>,
    socket: Socket,
}

/// What happens to the socket.
enum Socket {
    /// The one that is open stays, if there is one.
    Same,
    /// The one that is open gets this group.
    Given(Group),
    /// A new one opens.
    New(Bound),
}

/// A socket that is served. Dropping it closes and removes the socket.
struct Open {
    stops: Stops,
    abort: AbortHandle,
    /// Nothing is sent. The sender is dropped when the socket is closed.
    closed: mpsc::Receiver<Infallible>,
    _file: File,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.abort.abort();
        let _ = self.closed.recv_timeout(CLOSE_TIME);
    }
}

impl Service {
    /// Starts without a socket, for the instance with these pins.
    pub(crate) fn start(pins: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let serves = move || {
            // Nothing is sent. The wait ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new().name("stops".to_owned()).spawn(serves)?;
        let shown = Shown::default();
        let (begins, begun) = unbounded_channel();
        let desk = Desk::of(Judge::of(pins, Arc::clone(&shown), begins));
        let judge = desk.judge();
        handle.spawn(Writer::of(pins, &desk).run(begun));
        Ok(Self { judge, desk, shown, handle, open: None, _stop: stop })
    }

    /// Returns the place of the counts, for other threads.
    pub(crate) fn shown(&self) -> Shown {
        Arc::clone(&self.shown)
    }

    /// Returns where the fleet tells and hears of limits.
    pub(crate) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Returns the limits in force that concern an address.
    pub(crate) fn of_address(&self, address: &Prefix) -> Vec<Stop> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).in_force.of_address(address)
    }

    /// Prepares the table of a file: does every step that can fail, and changes nothing that is served.
    pub(crate) fn prepare(&self, stops: Option<&Stops>) -> Result<Prepared> {
        let open = self.open.as_ref().map(|open| &open.stops);
        let socket = match (stops, open) {
            (Some(new), Some(old)) if new.socket == old.socket && new.group == old.group => Socket::Same,
            (Some(new), Some(old)) if new.socket == old.socket => {
                Socket::Given(new.group.as_deref().map_or_else(|| Ok(Group::own()), Group::named)?)
            }
            (Some(new), _) => Socket::New(socket::bind(new)?),
            (None, _) => Socket::Same,
        };
        Ok(Prepared { stops: stops.cloned(), socket })
    }

    /// Applies a prepared table. Limits that were asked for before stay known.
    pub(crate) fn commit(&mut self, Prepared { stops, socket }: Prepared) {
        let (mode, proxies) = stops.as_ref().map(|stops| (stops.mode, &stops.trusted_proxies[..])).unzip();
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).follow(mode, proxies.unwrap_or_default());
        let Some(stops) = stops else {
            self.open = None;
            return;
        };
        match socket {
            Socket::Same => {}
            Socket::Given(group) => {
                if let Err(error) = socket::give(&stops.socket, &group) {
                    say(Level::Warning, &error.to_string());
                } else if let Some(open) = &mut self.open {
                    open.stops = stops;
                }
            }
            Socket::New(Bound { listener, file }) => self.open = Some(self.serve(stops, listener, file)),
        }
    }

    fn serve(&self, stops: Stops, listener: Listener, file: File) -> Open {
        let judge = Arc::clone(&self.judge);
        let task = self.handle.spawn(async move {
            if let Ok(listener) = UnixListener::from_std(listener) {
                serve(listener, judge).await;
            }
        });
        let (abort, (close, closed)) = (task.abort_handle(), mpsc::channel());
        self.handle.spawn(async move {
            let _ = task.await;
            drop(close);
        });
        Open { stops, abort, closed, _file: file }
    }
}
