//! What commands ask processes that stay, and what those answer.

use serde::{Deserialize, Serialize};

use crate::ssh::Session;

/// What can be asked, in one line of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Of the daemon: read the file again.
    Reload,
    /// The same, for who has more to say.
    #[serde(rename = "reload-by")]
    ReloadBy(Caller),
    /// Of who waits for it: all is well.
    Confirm,
    /// Of the same: how long does it wait?
    Left,
    /// Of the same: is there still anything to take back?
    Gone,
}

/// Who asks for a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// The SSH session that it was typed in, which must not be shut out.
    pub session: Option<Session>,
    /// Whether sessions may be shut out.
    pub force: bool,
}

impl Caller {
    /// What this one asks for; a version that knows no callers understands who has nothing to say.
    #[must_use]
    pub fn request(self) -> Request {
        if self == (Self { session: None, force: false }) { Request::Reload } else { Request::ReloadBy(self) }
    }
}

/// What it answers, in one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Done, as these words say.
    Done(String),
    /// Not done, for the reason that these words say.
    Failed(String),
    /// So many seconds are left.
    Left(u64),
}
