//! Waits until addresses, routes or name servers of this host change, so that what it spares follows them.

use std::time::Duration;

use anyhow::Result;
use ratelimit_dataplane::sys::{name_servers, network_events::NetworkChanges};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep_until},
};

use super::watch::Watch;

/// How long to wait after a report. More reports follow at once, such as the route of a new address.
const SETTLE: Duration = Duration::from_millis(200);

/// Watches this network namespace, and the files that name servers.
pub(super) struct Network {
    changes: AsyncFd<NetworkChanges>,
    /// Those of the files that can be watched.
    files: [Option<Watch>; 2],
    /// When to look.
    due: Option<Instant>,
}

impl Network {
    /// Watches from now on.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let changes = unsafe { AsyncFd::register(NetworkChanges::new()?) }?;
        let watch = |path: &str| Watch::since(path.as_ref(), std::fs::metadata(path).ok().as_ref()).ok();
        Ok(Self { changes, files: [name_servers::RESOLVER, name_servers::RESOLVED].map(watch), due: None })
    }

    /// Waits until something has changed, and no longer changes.
    pub(super) async fn changed(&mut self) -> Result<()> {
        loop {
            let Self { changes, files: [resolver, resolved], due } = self;
            let settled = *due;
            tokio::select! {
                ready = changes.readable() => {
                    let mut ready = ready?;
                    changes.get_ref().clear();
                    ready.clear_ready();
                }
                outcome = file(resolver.as_mut()) => outcome?,
                outcome = file(resolved.as_mut()) => outcome?,
                () = until(settled) => {
                    self.due = None;
                    return Ok(());
                }
            }
            // Not later with each report, since a router can report routes without a pause.
            self.due.get_or_insert_with(|| Instant::now() + SETTLE);
        }
    }

    /// Has it look again soon, because this time it could not.
    pub(super) fn again(&mut self, wait: Duration) {
        self.due.get_or_insert_with(|| Instant::now() + wait);
    }
}

async fn file(watch: Option<&mut Watch>) -> std::io::Result<()> {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
