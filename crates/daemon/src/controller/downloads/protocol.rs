//! What the daemon and its process tell each other. The process answers with one line of JSON, and the list behind it, one
//! prefix per line. If it fails, it writes why to standard error, and ends with a status.

use serde::{Deserialize, Serialize};

/// The environment variable that marks the process.
pub(super) const CHILD: &str = "RATELIMIT_FETCHES";

/// The most bytes of the first line, and of the reason of a failure.
pub(super) const LINE: u64 = 8 << 10;

/// A request, as JSON on standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ask {
    /// The address of the list.
    pub(super) url: String,
    /// The version of the copy that the daemon has.
    pub(super) etag: Option<String>,
    /// Its time.
    pub(super) last_modified: Option<String>,
    /// What the request shows to the server.
    pub(super) token: Option<String>,
    /// The authorities of the server as PEM. None are those of the system.
    pub(super) authorities: Option<Vec<u8>>,
    /// The largest body.
    pub(super) most: u64,
    /// The most entries.
    pub(super) entries: usize,
    /// The time for everything, in milliseconds.
    pub(super) milliseconds: u64,
}

/// The first line of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Told {
    /// The copy is still the list.
    Unchanged,
    /// The list follows.
    List {
        /// Its version.
        etag: Option<String>,
        /// Its time.
        last_modified: Option<String>,
        /// The lines of the server that are left out, in words. None without any.
        skipped: Option<String>,
    },
}
