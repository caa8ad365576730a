//! Limits in force, as the daemon tells commands of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Connection;

/// A limit that an application has asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The address or the prefix.
    pub source: String,
    /// The TCP port on this host.
    pub port: u16,
    /// How long ago it has begun.
    pub since_seconds: u64,
    /// Until it ends.
    pub left_seconds: u64,
    /// How many limits this source has had lately, with this one.
    pub times: u32,
    /// Whether it is not in force, because the daemon is in shadow. Earlier versions do not tell of those.
    #[serde(default)]
    pub shadow: bool,
    /// Who has asked for it.
    #[serde(flatten)]
    pub asker: Asker,
}

/// How a daemon answers applications, and the limits at this time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// `on` or `shadow`.
    pub mode: String,
    /// Limits in force.
    pub in_force: usize,
    /// Limits that would be in force, if not for shadow.
    pub in_shadow: usize,
}

/// Tells it for example as `in shadow, 2 clients would be stopped`.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clients = |number: usize| if number == 1 { "1 client".to_owned() } else { format!("{number} clients") };
        let Self { mode, in_force, in_shadow } = self;
        if self.is_shadow() {
            write!(f, "in shadow, {} would be stopped", clients(*in_shadow))
        } else {
            let are = if *in_force == 1 { "is" } else { "are" };
            write!(f, "{mode}, {} {are} stopped", clients(*in_force))
        }
    }
}

impl State {
    /// Returns whether no client is limited.
    pub fn is_shadow(&self) -> bool {
        self.mode == "shadow"
    }
}

/// Who has asked for a limit, and what proves the address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// The rule for requests that the client exceeds.
    pub rule: String,
    /// The client without characters that a terminal acts on. None if another host has told of the limit.
    pub client: Option<String>,
    /// The user of the application. None if the system does not tell, or another host has told of the limit.
    pub user: Option<u32>,
    /// The proof. None if another host has it.
    pub connection: Option<Connection>,
    /// The host that has told of the limit. None if an application of this host has asked for it.
    pub host: Option<String>,
}

/// Tells who, why and the proof.
impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, client, user, connection, host } = self;
        match (client, host) {
            (Some(client), _) => write!(f, "client {client} exceeds {rule}")?,
            (None, _) => write!(f, "a client exceeds {rule}")?,
        }
        match (host, user) {
            (Some(host), _) => write!(f, ", as the host {host} says")?,
            (None, Some(user)) => write!(f, ", as user {user} says")?,
            (None, None) => write!(f, ", as an unknown user says")?,
        }
        match connection {
            Some(Connection { local, remote }) => write!(f, "; connection {remote} to {local} is established"),
            None => Ok(()),
        }
    }
}
