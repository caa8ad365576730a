//! One change in the log.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

use crate::config::written::Keys;

/// One change.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Entry<'a> {
    pub(super) at: Timestamp,
    /// The name of the server, in a fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<&'a str>,
    /// The name of the caller's token.
    pub(super) token: &'a str,
    /// None for callers of a Unix socket.
    pub(super) address: Option<IpAddr>,
    /// `create`, `update`, `delete`, or `undone` for a change that the log has and the rules have not. In a fleet also
    /// `join` and `restore`, for all rules of a server that the engine did not have.
    pub(super) action: &'static str,
    pub(super) name: &'a str,
    pub(super) old_version: Option<u64>,
    /// The version of this change.
    pub(super) version: u64,
    /// The version of the change that this one takes back, by the undo of the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) undoes: Option<u64>,
    pub(super) old: Option<&'a Keys>,
    pub(super) new: Option<&'a Keys>,
}
