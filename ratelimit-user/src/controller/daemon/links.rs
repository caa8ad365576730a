//! Waits until an interface of the file comes or goes: a driver was loaded again, a tunnel reconnected, a VLAN was
//! created again, an interface got another name.
//!
//! The kernel reports changes by rtnetlink. The interfaces are listed after 200 ms of silence. Each pair of name and
//! index is reported once.

use std::{collections::HashSet, mem, time::Duration};

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
    /// Names of interfaces that were deleted since.
    deleted: HashSet<String>,
    /// The time of the next look.
    due: Option<Instant>,
}

impl Links {
    /// Watches from now on.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let changes = unsafe { AsyncFd::register(Changes::new()?) }?;
        Ok(Self { changes, known: present()?, deleted: HashSet::new(), due: None })
    }

    /// Waits until some of these interfaces come or go, and returns them. Each change is returned once.
    pub(crate) async fn changed(&mut self, requested: &[Interface]) -> Result<Vec<Interface>> {
        loop {
            if let Some(due) = self.due {
                sleep_until(due).await;
                match self.look(requested) {
                    Ok(changed) => {
                        self.due = None;
                        if !changed.is_empty() {
                            return Ok(changed);
                        }
                    }
                    // The kernel can fail to answer for a moment.
                    Err(_) => self.due = Some(Instant::now() + AGAIN),
                }
                continue;
            }
            let mut ready = self.changes.readable().await?;
            let gone = self.changes.get_ref().read();
            ready.clear_ready();
            let gone = self.known.extract_if(|(_, index)| gone.contains(index));
            self.deleted.extend(gone.map(|(name, _)| name));
            self.due = Some(Instant::now() + SETTLE);
        }
    }

    fn look(&mut self, requested: &[Interface]) -> Result<Vec<Interface>> {
        let now = present()?;
        let mut changed = mem::take(&mut self.deleted);
        changed.extend(now.symmetric_difference(&self.known).map(|(name, _)| name.clone()));
        self.known = now;
        Ok(requested.iter().filter(|interface| changed.contains(&interface.name)).cloned().collect())
    }
}

fn present() -> Result<HashSet<(String, u32)>> {
    Ok(interface::list()?.into_iter().map(|interface| (interface.name, interface.index)).collect())
}
