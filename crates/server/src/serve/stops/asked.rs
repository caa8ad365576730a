//! Requests to the daemon, and when it may be asked for the same client again.

use std::{fmt, net::IpAddr};

use ratelimit_protocol::stops::LONGEST;
use scc::{HashCache, hash_cache::Entry};

/// The most clients that are remembered. One that is forgotten is asked for again, which changes nothing.
const MOST: usize = 1 << 12;
const SECOND: u64 = 1_000_000_000;
/// Time until the next request about a client without a limit. A connection that was closed is no proof, and the client
/// soon opens another one.
pub(super) const PAUSE: u64 = SECOND;

/// A client as the daemon limits it: its address, and the port of this host.
pub(super) type Place = (IpAddr, u16);

/// A request to the daemon.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) line: Vec<u8>,
    pub(super) place: Place,
    /// When it was made, by the clock of the limiter.
    pub(super) at: u64,
}

/// The clients that the daemon was asked for, with the times from which on it may be asked again.
pub(super) struct Asked(HashCache<Place, u64>);

impl Default for Asked {
    fn default() -> Self {
        Self(HashCache::with_capacity(MOST, MOST))
    }
}

impl Asked {
    /// Returns whether the daemon may be asked now. If so, it is not asked again before a pause.
    pub(super) fn begin(&self, place: Place, now: u64) -> bool {
        let until = now.saturating_add(PAUSE);
        match self.0.entry_sync(place) {
            Entry::Occupied(known) if *known.get() > now => false,
            Entry::Occupied(mut known) => {
                *known.get_mut() = until;
                true
            }
            Entry::Vacant(free) => {
                let _ = free.put_entry(until);
                true
            }
        }
    }

    /// Notes that a client, asked for at this time, is limited for so many seconds.
    pub(super) fn limited(&self, place: Place, at: u64, seconds: u64) {
        // An answer of zero seconds must not let each request ask, and no limit is longer than the longest.
        let until = at.saturating_add(seconds.clamp(1, LONGEST.as_secs()) * SECOND);
        if let Some(mut known) = self.0.get_sync(&place) {
            *known.get_mut() = until;
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asked")
    }
}
