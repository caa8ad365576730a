//! Waits until the file of a list changes.

use std::{fs::Metadata, future::poll_fn, io, path::PathBuf, task::Poll};

use ratelimit_base::notify::journal::{Level, say};

use super::watch::Watch;
use crate::config::PlannedList;

/// The file of a list, as it was when it was read.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    path: PathBuf,
    /// None without a file.
    metadata: Option<Metadata>,
}

impl Feed {
    /// Returns the file of a list.
    pub(super) fn of(list: &PlannedList) -> Self {
        Self { path: list.file.clone(), metadata: list.metadata.clone() }
    }
}

/// Watches the files of lists.
#[derive(Default)]
pub(super) struct Feeds {
    watches: Vec<(PathBuf, Watch)>,
    /// Files that cannot be watched. Each is reported once.
    unwatched: Vec<PathBuf>,
}

impl Feeds {
    /// Watches these files from now on, and no others. A change since a file was read counts.
    pub(super) fn follow(&mut self, feeds: &[Feed]) {
        let is_listed = |path: &PathBuf| feeds.iter().any(|feed| feed.path == *path);
        self.watches.retain(|(path, _)| is_listed(path));
        self.unwatched.retain(is_listed);
        for Feed { path, metadata } in feeds {
            if self.watches.iter().any(|(known, _)| known == path) {
                continue;
            }
            match Watch::since(path, metadata.as_ref()) {
                Ok(watch) => {
                    self.unwatched.retain(|other| other != path);
                    self.watches.push((path.clone(), watch));
                }
                Err(_) if self.unwatched.contains(path) => {}
                Err(error) => {
                    say(Level::Warning, &format!("cannot watch {}: {error}", path.display()));
                    self.unwatched.push(path.clone());
                }
            }
        }
    }

    /// Waits until one of the files changes.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        let mut all: Vec<_> = self.watches.iter_mut().map(|(_, watch)| Box::pin(watch.changed())).collect();
        poll_fn(|context| {
            let changed = all.iter_mut().find_map(|watch| match watch.as_mut().poll(context) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            });
            changed.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
