//! Frames that the rings of the veth pair lost, before any program saw them.

use std::fs;

use anyhow::{Context as _, Result};
use ratelimit_tests::{PEER_LINK, Sandbox, VICTIM_LINK};

/// Columns of a link in `/proc/net/dev`, behind its name.
const RECEIVED_DROPPED: usize = 3;
const SENT_DROPPED: usize = 11;

/// Frames that did not fit into a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Losses {
    /// Of the flood, whose frames a program sends.
    pub(super) flood: u64,
    /// Of the visitors, whose frames the network stack sends.
    pub(super) visitors: u64,
}

impl Losses {
    /// Reads what was lost so far. While a flood runs, only its own losses are right: the kernel is asked twice.
    pub(super) fn so_far(sandbox: &Sandbox) -> Result<Self> {
        // The kernel counts a frame of a program at both ends, and a frame of the network stack only at its sender.
        let flood = sandbox.victim(|| dropped(VICTIM_LINK, RECEIVED_DROPPED))?;
        let both = sandbox.peer(|| dropped(PEER_LINK, SENT_DROPPED))?;
        Ok(Self { flood, visitors: both.saturating_sub(flood) })
    }

    /// Returns what was lost since then.
    pub(super) fn since(self, before: Self) -> Self {
        Self { flood: self.flood - before.flood, visitors: self.visitors.saturating_sub(before.visitors) }
    }
}

/// Returns a counter of a link in the calling thread's namespace.
fn dropped(link: &str, column: usize) -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/dev")?;
    let counters = text.lines().find_map(|line| line.trim_start().strip_prefix(link)?.strip_prefix(':'));
    let counter = counters.and_then(|counters| counters.split_whitespace().nth(column));
    Ok(counter.with_context(|| format!("the kernel does not count what {link} drops"))?.parse()?)
}
