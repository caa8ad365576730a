//! Waits until an interface of the file comes back: a driver was loaded again, a tunnel reconnected, a VLAN was created
//! again.
//!
//! The kernel reports changes by rtnetlink. The interfaces are listed after 200 ms of silence. Each pair of name and
//! index is tried once.

use std::{collections::HashSet, time::Duration};

use anyhow::Result;
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep_until},
};

use crate::{
    config::Interface,
    dataplane::sys::{interface, link_events::Changes},
};

/// How long to wait after a report of the kernel. More reports follow at once, such as the new name.
const SETTLE: Duration = Duration::from_millis(200);

/// How long to wait after the kernel has failed to list interfaces.
const AGAIN: Duration = Duration::from_secs(1);

/// Watches the interfaces of this network namespace.
pub(crate) struct Links {
    changes: AsyncFd<Changes>,
    /// Names and indices of the interfaces at the last look.
    known: HashSet<(String, u32)>,
    /// The time of the next look.
    due: Option<Instant>,
}

impl Links {
    /// Watches from now on.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let changes = unsafe { AsyncFd::register(Changes::new()?) }?;
        Ok(Self { changes, known: present()?, due: None })
    }

    /// Waits until some of these interfaces appear, and returns them. Each is returned once.
    pub(crate) async fn come_back(&mut self, requested: &[Interface]) -> Result<Vec<Interface>> {
        loop {
            if let Some(due) = self.due {
                sleep_until(due).await;
                match self.look(requested) {
                    Ok(come) if come.is_empty() => self.due = None,
                    Ok(come) => {
                        self.due = None;
                        return Ok(come);
                    }
                    // The kernel can fail to answer for a moment.
                    Err(_) => self.due = Some(Instant::now() + AGAIN),
                }
                continue;
            }
            let mut ready = self.changes.readable().await?;
            let gone = self.changes.get_ref().read();
            ready.clear_ready();
            self.known.retain(|(_, index)| !gone.contains(index));
            self.due = Some(Instant::now() + SETTLE);
        }
    }

    fn look(&mut self, requested: &[Interface]) -> Result<Vec<Interface>> {
        let now = present()?;
        let come: HashSet<&str> = now.difference(&self.known).map(|(name, _)| name.as_str()).collect();
        let come = requested.iter().filter(|interface| come.contains(interface.name.as_str())).cloned().collect();
        self.known = now;
        Ok(come)
    }
}

fn present() -> Result<HashSet<(String, u32)>> {
    Ok(interface::list()?.into_iter().map(|interface| (interface.name, interface.index)).collect())
}
