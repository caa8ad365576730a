//! The thread that answers applications while the file has the table, and changes of its socket.

use std::{os::unix::net::UnixListener as Listener, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use ratelimit_base::{
    notify::journal::{Level, say},
    unix_group::Group,
};
use ratelimit_dataplane::program::values::Difference;
use ratelimit_protocol::stops::{Events, State, Stop};
use tokio::{net::UnixListener, sync::mpsc::unbounded_channel};

use super::{changes::changes, counts::Shown, desk::Desk, judge::Judge, server::serve, writer::Writer};
use crate::{
    config::daemon::stops::Stops,
    controller::{
        group_socket::{self, Bound, File},
        tasks::{Task, Tasks},
    },
};

/// Answers applications until it is dropped.
pub struct Service {
    desk: Desk,
    shown: Shown,
    open: Option<Open>,
}

/// The table of a file. Every step that can fail is done.
pub struct Prepared {
    stops: Option<Stops>,
    socket: Socket,
    changes: Vec<Difference>,
}

/// What happens to the socket.
enum Socket {
    /// The one that is open stays, if there is one.
    Same,
    /// The one that is open gets this group.
    Given(Group),
    /// A new one opens.
    New(Bound, Tasks),
}

/// A socket that is served. Dropping it closes and removes the socket.
struct Open {
    stops: Stops,
    /// It ends before the thread, and before the file is removed.
    _task: Task,
    _tasks: Tasks,
    _file: File,
}

impl Service {
    /// Starts without a socket, for the instance with these pins. What begins and ends limits runs in the runtime of the
    /// caller, also without the table, because a daemon before can have left some.
    pub fn start(pins: &Path) -> Self {
        let shown = Shown::default();
        let (begins, begun) = unbounded_channel();
        let desk = Desk::of(Judge::of(pins, Arc::clone(&shown), begins));
        tokio::spawn(Writer::of(pins, &desk).run(begun));
        Self { desk, shown, open: None }
    }

    /// Returns the place of the counts, for other threads.
    pub fn shown(&self) -> Shown {
        Arc::clone(&self.shown)
    }

    /// Returns where the fleet tells and hears of limits.
    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Returns the limits that are in force for an address, or would be.
    pub fn of_address(&self, address: &str) -> Vec<Stop> {
        address.parse().map(|address| self.desk.lock().in_force.of_address(&address)).unwrap_or_default()
    }

    /// Returns the mode, and the number of limits. None without the table in the file.
    pub fn state(&self) -> Option<State> {
        self.desk.lock().in_force.state()
    }

    /// Returns the oldest events after this number.
    pub fn events_after(&self, number: u64) -> Events {
        self.desk.lock().in_force.journal.after(number)
    }

    /// Prepares the table of a file: does every step that can fail, and changes nothing that is served.
    pub fn prepare(&self, stops: Option<&Stops>) -> Result<Prepared> {
        let open = self.open.as_ref().map(|open| &open.stops);
        let socket = match (stops, open) {
            (Some(new), Some(old)) if new.socket == old.socket && new.group == old.group => Socket::Same,
            (Some(new), Some(old)) if new.socket == old.socket => {
                Socket::Given(Group::of(new.group.as_deref()).context("stops")?)
            }
            (Some(new), _) => {
                let bound = group_socket::bind(&new.socket, new.group.as_deref()).context("stops")?;
                Socket::New(bound, Tasks::start("stops")?)
            }
            (None, _) => Socket::Same,
        };
        Ok(Prepared { changes: changes(open, stops), stops: stops.cloned(), socket })
    }

    /// Applies a prepared table. Limits that were asked for before stay known. Returns what has changed.
    pub fn commit(&mut self, Prepared { stops, socket, changes }: Prepared) -> Vec<Difference> {
        let (mode, proxies) = stops.as_ref().map(|stops| (stops.mode, &stops.trusted_proxies[..])).unzip();
        self.desk.lock().follow(mode, proxies.unwrap_or_default());
        let Some(stops) = stops else {
            self.open = None;
            return changes;
        };
        match (socket, &mut self.open) {
            (Socket::New(Bound { listener, file }, tasks), _) => {
                self.open = Some(self.serve(stops, listener, file, tasks));
            }
            (Socket::Given(group), Some(open)) => {
                let given = group_socket::give(&stops.socket, &group);
                // The next reload gives it again.
                let group = if given.is_ok() { stops.group.clone() } else { open.stops.group.clone() };
                given.unwrap_or_else(|error| say(Level::Warning, &format!("stops: {error}")));
                open.stops = Stops { group, ..stops };
            }
            (_, Some(open)) => open.stops = stops,
            (_, None) => {}
        }
        changes
    }

    fn serve(&self, stops: Stops, listener: Listener, file: File, tasks: Tasks) -> Open {
        let judge = self.desk.judge();
        let task = tasks.begin(async move {
            if let Ok(listener) = UnixListener::from_std(listener) {
                serve(listener, judge).await;
            }
        });
        Open { stops, _task: task, _tasks: tasks, _file: file }
    }
}
