//! Tells when an interface of the file comes back: a driver was loaded again, a tunnel dialled again, a VLAN made anew.

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

/// How long is waited after the kernel has told of something: more comes right after it, such as its name.
const SETTLE: Duration = Duration::from_millis(200);

/// How long is waited where the kernel does not say which there are.
const AGAIN: Duration = Duration::from_secs(1);

/// Watches the interfaces of this network namespace.
pub(crate) struct Links {
    changes: AsyncFd<Changes>,
    /// Names and indices of those that were there at the last look.
    known: HashSet<(String, u32)>,
    /// When to look.
    due: Option<Instant>,
}

impl Links {
    /// From now on.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: the descriptor is owned by what waits for it, and never closed or changed before.
        let changes = unsafe { AsyncFd::register(Changes::new()?) }?;
        Ok(Self { changes, known: present()?, due: None })
    }

    /// Waits until some of these have come that were not there, and returns those: each once, whatever becomes of it.
    pub(crate) async fn come_back(&mut self, wanted: &[Interface]) -> Result<Vec<Interface>> {
        loop {
            if let Some(due) = self.due {
                sleep_until(due).await;
                match self.look(wanted) {
                    Ok(come) if come.is_empty() => self.due = None,
                    Ok(come) => {
                        self.due = None;
                        return Ok(come);
                    }
                    // The kernel has no answer for a moment.
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

    fn look(&mut self, wanted: &[Interface]) -> Result<Vec<Interface>> {
        let now = present()?;
        let come: HashSet<&str> = now.difference(&self.known).map(|(name, _)| name.as_str()).collect();
        let come = wanted.iter().filter(|interface| come.contains(interface.name.as_str())).cloned().collect();
        self.known = now;
        Ok(come)
    }
}

fn present() -> Result<HashSet<(String, u32)>> {
    Ok(interface::list()?.into_iter().map(|interface| (interface.name, interface.index)).collect())
}
