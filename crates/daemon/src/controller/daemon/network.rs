//! Waits until addresses, routes or name servers of this host change, so that what it spares follows them.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use ratelimit_dataplane::sys::{
    name_servers,
    network_events::{Cleared, NetworkChanges},
};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep_until},
};

use super::{pace::Pace, watch::Watch};

/// Watches this network namespace, and the files that name servers.
pub(super) struct Network {
    changes: AsyncFd<NetworkChanges>,
    /// Those of the files that can be watched.
    files: [Option<Watch>; name_servers::FILES],
    /// When to look. A router can report routes without a pause.
    look: Pace,
}

impl Network {
    /// Watches from now on.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let changes = unsafe { AsyncFd::register(NetworkChanges::new()?) }?;
        let watch = |path: PathBuf| Watch::since(&path, std::fs::metadata(&path).ok().as_ref()).ok();
        let mut paths = name_servers::files().into_iter();
        let files = [(); name_servers::FILES].map(|()| paths.next().and_then(watch));
        Ok(Self { changes, files, look: Pace::default() })
    }

    /// Waits until something has changed, and it is time to look.
    pub(super) async fn changed(&mut self) -> Result<()> {
        loop {
            let Self { changes, files: [first, second, third], look } = self;
            if let Some(due) = look.due() {
                // Until then, the kernel keeps reports, or drops them: one is as good as many.
                sleep_until(due).await;
                if look.is_due(Instant::now()) {
                    changes.get_ref().clear();
                    return Ok(());
                }
                continue;
            }
            tokio::select! {
                ready = changes.readable() => {
                    let mut ready = ready?;
                    let Cleared { some, all } = changes.get_ref().clear();
                    if all {
                        ready.clear_ready();
                    }
                    if !some {
                        continue;
                    }
                }
                outcome = file(first.as_mut()) => outcome?,
                outcome = file(second.as_mut()) => outcome?,
                outcome = file(third.as_mut()) => outcome?,
            }
            look.plan(Instant::now());
        }
    }

    /// Learns what the look has found. One that could not look is made again soon.
    pub(super) fn looked(&mut self, found: Followed, wait: Duration) {
        match found {
            Followed::Nothing => {}
            Followed::Changed => self.look.was_of_use(),
            Followed::Later => self.look.again(wait),
        }
    }
}

/// What a look at this host's network has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Followed {
    Nothing,
    Changed,
    /// It could not look, or not change what is spared.
    Later,
}

async fn file(watch: Option<&mut Watch>) -> std::io::Result<()> {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
