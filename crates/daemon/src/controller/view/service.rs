//! The thread that answers while the file has the table, and changes of its socket.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use ratelimit_base::{
    notify::journal::{Level, say},
    unix_group::Group,
};
use ratelimit_dataplane::program::values::Difference;
use tokio::net::UnixListener;

use super::{changes::Desk, reader::Reader, server::serve};
use crate::{
    config::daemon::view::View,
    controller::{
        group_socket::{self, Bound, File},
        tasks::{Task, Tasks},
    },
    ssh,
};

/// Answers other programs until it is dropped.
pub struct Service {
    pins: PathBuf,
    open: Option<Open>,
    desk: Arc<Desk>,
}

/// The table of a file. Every step that can fail is done.
pub struct Prepared {
    view: Option<View>,
    socket: Socket,
}

/// What becomes of the socket.
enum Socket {
    /// The one that is open stays, or none is needed.
    Same,
    /// The one that is open gets another group.
    Given(Group),
    New(Bound, Tasks),
}

/// A socket that is served. Dropping it closes and removes the socket.
struct Open {
    view: View,
    /// It ends before the thread, and before the file is removed.
    _task: Task,
    _tasks: Tasks,
    _file: File,
}

impl Service {
    /// Returns a service without a socket, for the instance with these pins.
    pub fn of(pins: &Path) -> Self {
        Self { pins: pins.to_owned(), open: None, desk: Arc::new(Desk::new(ssh::Origin::of_this_process())) }
    }

    /// Prepares the table of a file: does every step that can fail, and changes nothing that is served.
    pub fn prepare(&mut self, view: Option<&View>) -> Result<Prepared> {
        let open = self.open.as_ref().map(|open| &open.view);
        let is_same_path = view.zip(open).is_some_and(|(new, old)| new.socket == old.socket);
        let socket = match view {
            Some(new) if !is_same_path => {
                let bound = group_socket::bind(&new.socket, new.group.as_deref()).context("view")?;
                Socket::New(bound, Tasks::start("view")?)
            }
            Some(new) if open != view => Socket::Given(Group::of(new.group.as_deref()).context("view")?),
            _ => Socket::Same,
        };
        Ok(Prepared { view: view.cloned(), socket })
    }

    /// Applies a prepared table. Returns what has changed.
    pub fn commit(&mut self, Prepared { view, socket }: Prepared) -> Vec<Difference> {
        let changes = changes(self.open.as_ref().map(|open| &open.view), view.as_ref());
        let Some(view) = view else {
            self.desk.allow(false);
            self.open = None;
            return changes;
        };
        let mut allows = view.changes;
        match (socket, &mut self.open) {
            (Socket::New(Bound { listener, file }, tasks), _) => {
                tasks.run(Arc::clone(&self.desk).watch(self.pins.clone()));
                let reader = Arc::new(Reader::of(&self.pins, &self.desk));
                let task = tasks.begin(async move {
                    if let Ok(listener) = UnixListener::from_std(listener) {
                        serve(listener, reader).await;
                    }
                });
                self.open = Some(Open { view, _task: task, _tasks: tasks, _file: file });
            }
            (Socket::Given(group), Some(open)) => {
                let given = group_socket::give(&view.socket, &group);
                // The next reload gives it again. Until then, members of the old group only read.
                allows &= given.is_ok();
                let group = if given.is_ok() { view.group.clone() } else { open.view.group.clone() };
                given.unwrap_or_else(|error| say(Level::Warning, &format!("view: {error}")));
                open.view = View { group, changes: allows, ..view };
            }
            (_, Some(open)) => open.view = view,
            (_, None) => {}
        }
        self.desk.allow(allows);
        changes
    }
}

fn changes(before: Option<&View>, after: Option<&View>) -> Vec<Difference> {
    let of = |name: &str, text: &dyn Fn(&View) -> String| {
        let [before, after] = [before, after].map(|view| view.map_or_else(|| "none".to_owned(), text));
        let name = name.to_owned();
        (before != after).then_some(Difference { name, before, after, is_omitted: false })
    };
    let group = |view: &View| view.group.clone().unwrap_or_else(|| "the group of the daemon".to_owned());
    let socket = |view: &View| view.socket.display().to_string();
    let changes = |view: &View| if view.changes { "on" } else { "off" }.to_owned();
    let all = [of("view socket", &socket), of("view group", &group), of("view changes", &changes)];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt as _};

    use super::*;

    #[test]
    fn a_file_that_is_refused_leaves_the_group_of_the_socket() {
        let folder = std::env::temp_dir().join(format!("ratelimit-view-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let socket = folder.join("socket");
        let view =
            |group: Option<&str>| View { socket: socket.clone(), group: group.map(str::to_owned), changes: false };
        let mut service = Service::of(&folder);
        let prepared = service.prepare(Some(&view(None))).unwrap();
        service.commit(prepared);
        let group = || fs::metadata(&socket).unwrap().gid();
        let own = group();
        // Another table of the file may be refused after this one.
        drop(service.prepare(Some(&view(Some("1")))).unwrap());
        assert_eq!(group(), own);
        drop(service);
        fs::remove_dir_all(folder).unwrap();
    }
}
