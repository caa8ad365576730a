//! What stands in place of fetching in a build without the feature `lists`. No file has a list on a server.

use std::{process::ExitCode, sync::Arc};

use tokio::sync::Notify;

use crate::{config::PlannedList, controller::socket::request::RemoteList};

/// Returns that this process is none that fetches.
#[must_use]
pub fn child() -> Option<ExitCode> {
    None
}

/// What is known of the lists that are fetched: nothing.
#[derive(Clone, Default)]
pub struct Shown;

impl Shown {
    /// Returns no list.
    pub fn lists(&self) -> Vec<RemoteList> {
        Vec::new()
    }
}

/// Does nothing.
#[derive(Default)]
pub struct Service(Shown);

impl Service {
    /// Returns what shows the lists.
    pub fn shown(&self) -> Shown {
        self.0.clone()
    }

    /// Returns what never wakes up.
    pub fn fetched(&self) -> Arc<Notify> {
        Arc::default()
    }

    /// Follows no lists.
    pub fn follow(&self, _: &[PlannedList]) {}

    /// Fetches nothing.
    pub fn fetch_now(&self) -> Vec<RemoteList> {
        Vec::new()
    }

    /// Returns no list.
    pub fn lists(&self) -> Vec<RemoteList> {
        Vec::new()
    }
}
