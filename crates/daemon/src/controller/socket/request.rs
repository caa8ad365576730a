//! Requests of commands, and the answers.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use ratelimit_base::text::units;
use ratelimit_dataplane::readings::rates::Rates;
use ratelimit_protocol::{
    fleet::Status,
    stops::{Events, State, Stop},
};
use serde::{Deserialize, Serialize};

use super::rules::{RulesReply, RulesRequest};
use crate::{config, crowdsec, ssh::Session};

/// A request in one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// To the daemon: read the file again.
    Reload,
    /// To the daemon: tell which file is in force, and what differs from it.
    State,
    /// To the daemon: tell what it knows of the fleet.
    Fleet,
    /// To the daemon: tell the limits of applications that concern this address.
    Stops(String),
    /// To the daemon: tell the oldest events of such limits after this number.
    #[serde(rename = "stop-events")]
    StopEvents(u64),
    /// To the daemon: do this with the shared rules of the fleet, on behalf of this operator.
    Rules(RulesRequest, String),
    /// To the daemon: read the file again, for this caller.
    #[serde(rename = "reload-by")]
    ReloadBy(Caller),
    /// To an attach that waits: keep the changes.
    Confirm,
    /// To an attach that waits: tell how many seconds are left.
    Left,
    /// To an attach that waits: check whether the instance still exists.
    Gone,
}

/// The sender of a reload request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// The SSH session of the command, which must not be blocked.
    pub session: Option<Session>,
    /// Whether sessions may be blocked.
    pub force: bool,
    /// Whether the address of the session must not be allowed. Earlier versions do not know this.
    #[serde(default, skip_serializing_if = "is_false")]
    pub declines: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Caller {
    /// Returns the request of this caller. Without details it is the one that older versions understand too.
    #[must_use]
    pub fn request(self) -> Request {
        if self == (Self { session: None, force: false, declines: false }) {
            Request::Reload
        } else {
            Request::ReloadBy(self)
        }
    }
}

/// An answer in one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The request is done, as the text tells.
    Done(String),
    /// The file was read again.
    Applied(Reloaded),
    /// The request failed, for the reason in the text.
    Failed(String),
    /// This many seconds are left.
    Left(u64),
    /// This file is in force.
    State(FileState),
    /// This is known of the fleet. None without one.
    Fleet(Option<Status>),
    /// These limits of applications are in force, or would be.
    Stops(Vec<Stop>),
    /// These are events of such limits.
    #[serde(rename = "stop-events")]
    StopEvents(Events),
    /// This was done with the shared rules.
    Rules(RulesReply),
}

/// What a reload has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// The result in words, which names the first replaced rules.
    pub message: String,
    /// The rules that the file has replaced by others.
    pub replaced: Vec<Replaced>,
    /// The rules *allow* that only an earlier file had.
    pub removed_allows: Vec<String>,
}

/// A rule that a file has replaced by another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// The packets that it matches.
    pub rule: String,
    /// What it was before.
    pub before: String,
}

/// The file that a daemon keeps in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileState {
    /// Its path.
    pub file: String,
    /// Its interfaces.
    pub interfaces: Vec<config::Interface>,
    /// Those that do not carry the program.
    pub unattached: Vec<Unattached>,
    /// The settings by name that it decides, also by omission.
    pub settings: BTreeMap<String, String>,
    /// The number of its rules that have no end.
    #[serde(default)]
    pub rules: usize,
    /// These rules and what they do, if they are few.
    #[serde(default)]
    pub few_rules: Vec<(String, String)>,
    /// The names of its lists.
    #[serde(default)]
    pub lists: Vec<String>,
    /// Why it was refused at the last reload, so that an earlier state of it is in force.
    #[serde(default)]
    pub refused: Option<String>,
    /// Its lists whose files could not be used.
    #[serde(default)]
    pub unusable_lists: Vec<UnusableList>,
    /// Its lists that lie on servers.
    #[serde(default)]
    pub remote_lists: Vec<RemoteList>,
    /// Why its state file was not written last. None if it was, or if there is none.
    #[serde(default)]
    pub unsaved: Option<String>,
    /// How it answers applications that ask to stop clients. None without the table in the file.
    #[serde(default)]
    pub stops: Option<State>,
    /// What is in force of CrowdSec's decisions. None without the table in the file.
    #[serde(default)]
    pub crowdsec: Option<crowdsec::State>,
    /// Which of its files other users may change: the file, and those that it names.
    #[serde(default)]
    pub changeable: Vec<String>,
    /// The rates of the last minute, or of the time since the daemon or the instance began.
    #[serde(default)]
    pub last_minute: Option<Rates>,
}

impl FileState {
    /// Records which of its unusable lists are in force now. Commands can have deleted or set them since the last reload.
    pub fn look_up_lists(&mut self, is_in_force: impl Fn(&str) -> bool) {
        self.unusable_lists.iter_mut().for_each(|list| list.is_in_force = is_in_force(&list.name));
    }
}

/// A list of the file whose own file could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusableList {
    /// Its name.
    pub name: String,
    /// Its own file.
    pub file: String,
    /// What is wrong with that, as a predicate.
    pub reason: String,
    /// Whether the list is in force as it was before.
    pub is_in_force: bool,
}

impl fmt::Display for UnusableList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_in_force { "the previous list stays in force" } else { "the list is not in force" };
        write!(f, "list {}: {} {}, so {state}", self.name, self.file, self.reason)
    }
}

/// A list of the file that lies on a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteList {
    /// Its name.
    pub name: String,
    /// Its address, without the query.
    pub url: String,
    /// When its content last changed. None if it was never fetched.
    pub changed_at: Option<Timestamp>,
    /// When the server last said that the copy of the daemon is its list.
    pub checked_at: Option<Timestamp>,
    /// Why the last request failed. None if it did not.
    pub failure: Option<String>,
    /// Whether the daemon knows the outcome of the last request. A daemon that starts asks first. Not in JSON.
    #[serde(skip)]
    pub is_known: bool,
}

impl RemoteList {
    /// Returns how long ago the server last said that the copy is its list, in words.
    #[must_use]
    pub fn age(&self) -> String {
        self.checked_at.map_or_else(|| "never".to_owned(), ago)
    }
}

/// Returns how long ago a time is, in words.
pub fn ago(at: Timestamp) -> String {
    let age = Duration::try_from(Timestamp::now().duration_since(at)).unwrap_or_default();
    format!("{} ago", units::write_duration(age))
}

/// An interface of the file that does not carry the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unattached {
    /// The interface.
    #[serde(flatten)]
    pub interface: config::Interface,
    /// Whether it exists in the daemon's network namespace.
    pub exists: bool,
}
