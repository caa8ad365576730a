//! The thread that answers, and changes of its socket.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use tokio::net::UnixListener;

use super::{reader::Reader, server::serve};
use crate::{
    config::daemon::view::View,
    controller::{
        group_socket::{self, Bound, File},
        tasks::{Task, Tasks},
    },
    dataplane::program::values::Difference,
};

/// Answers other programs until it is dropped.
pub(crate) struct Service {
    pins: PathBuf,
    open: Option<Open>,
    tasks: Tasks,
}

/// The table of a file. Every step that can fail is done.
pub(crate) struct Prepared {
    view: Option<View>,
    /// A new socket. None if the one that is open stays.
    socket: Option<Bound>,
}

/// A socket that is served. Dropping it closes and removes the socket.
struct Open {
    view: View,
    /// It ends before the file is removed.
    _task: Task,
    _file: File,
}

impl Service {
    /// Starts without a socket, for the instance with these pins.
    pub(crate) fn start(pins: &Path) -> Result<Self> {
        Ok(Self { pins: pins.to_owned(), open: None, tasks: Tasks::start("view")? })
    }

    /// Prepares the table of a file: does every step that can fail, and changes nothing that is served.
    pub(crate) fn prepare(&mut self, view: Option<&View>) -> Result<Prepared> {
        let open = self.open.as_ref().map(|open| &open.view);
        let is_same_path = view.zip(open).is_some_and(|(new, old)| new.socket == old.socket);
        let socket = match view {
            Some(new) if !is_same_path => Some(group_socket::bind(&new.socket, new.group.as_deref()).context("view")?),
            Some(new) if open != view => {
                let group = group_socket::Group::of(new.group.as_deref()).context("view")?;
                group_socket::give(&new.socket, &group).context("view")?;
                None
            }
            _ => None,
        };
        Ok(Prepared { view: view.cloned(), socket })
    }

    /// Applies a prepared table. Returns what has changed.
    pub(crate) fn commit(&mut self, Prepared { view, socket }: Prepared) -> Vec<Difference> {
        let changes = changes(self.open.as_ref().map(|open| &open.view), view.as_ref());
        match (view, socket) {
            (None, _) => self.open = None,
            (Some(view), Some(Bound { listener, file })) => {
                let reader = Arc::new(Reader::of(&self.pins));
                let task = self.tasks.begin(async move {
                    if let Ok(listener) = UnixListener::from_std(listener) {
                        serve(listener, reader).await;
                    }
                });
                self.open = Some(Open { view, _task: task, _file: file });
            }
            (Some(view), None) => self.open.iter_mut().for_each(|open| open.view = view.clone()),
        }
        changes
    }
}

fn changes(before: Option<&View>, after: Option<&View>) -> Vec<Difference> {
    let of = |name: &str, text: &dyn Fn(&View) -> String| {
        let [before, after] = [before, after].map(|view| view.map_or_else(|| "none".to_owned(), text));
        let name = name.to_owned();
        (before != after).then_some(Difference { name, before, after, is_omitted: false })
    };
    let group = |view: &View| view.group.clone().unwrap_or_else(|| "that of the daemon".to_owned());
    let socket = |view: &View| view.socket.display().to_string();
    [of("view socket", &socket), of("view group", &group)].into_iter().flatten().collect()
}
