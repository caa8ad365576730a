//! Questions of callers, within bounds.

mod json;
mod named;
mod spelling;

use std::{collections::BTreeMap, time::Duration};

use ratelimit_limiter::ADDRESS;
use serde::Deserialize;

pub(super) use self::named::Named;
use super::access::Peer;

/// The time in which a call must arrive and be answered.
pub(super) const TIME: Duration = Duration::from_secs(5);
/// The most attributes of a request.
const ATTRIBUTES: usize = 32;
/// The most requests of a batch.
const BATCH: usize = 100;

/// One request to decide.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    #[serde(deserialize_with = "json::attributes")]
    pub(super) attributes: Attributes,
    #[serde(default = "one", deserialize_with = "json::cost")]
    pub(super) cost: u32,
    /// The client's connection to this host.
    #[serde(default, deserialize_with = "json::connection")]
    pub(super) connection: Named,
    /// What a client has made unreadable, and is missing therefore.
    #[serde(skip)]
    pub(super) unreadable: u64,
}

/// What a caller says about a request.
pub(super) type Attributes = BTreeMap<String, String>;

/// Several requests, which are all allowed or none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Batch {
    /// Whether they are parts of one request.
    #[serde(skip)]
    is_one: bool,
    #[serde(deserialize_with = "json::requests")]
    requests: Vec<Question>,
}

/// Several requests within the bounds: attributes and cost of each, and its connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Whether they are parts of one request.
    pub(super) is_one: bool,
    pub(super) all: Vec<(Attributes, u32)>,
    pub(super) connections: Vec<Named>,
    /// What clients have made unreadable.
    pub(super) unreadable: u64,
}

fn one() -> u32 {
    1
}

impl Question {
    /// What it is as JSON.
    pub(super) const NAME: &str = "an object with attributes";
    /// One as JSON.
    pub(super) const EXAMPLE: &str = r#"{"attributes": {"user": "17"}}"#;

    /// Returns the question of a caller with this address. Only callers of a Unix socket, which have none, may name a
    /// connection: other machines have no connections to this host, and any local user reaches a loopback address.
    pub(super) fn from(self, peer: Option<Peer>) -> Self {
        let connection = match self.connection {
            Named::Connection(_) if peer.is_some() => Named::NotAllowed,
            named => named,
        };
        Self { connection, ..self }
    }

    /// Returns the question of a proxy about a request with these attributes.
    pub(super) fn of_proxy(attributes: Attributes) -> Self {
        Self { attributes, cost: 1, connection: Named::Nothing, unreadable: 0 }
    }

    /// Returns an attribute of a proxy as rules have it: a host in small letters without port, and a path in one spelling.
    pub(super) fn spelled(name: &str, value: String, merges_paths: bool) -> String {
        match name {
            "host" => spelling::host(&value),
            "path" => spelling::path(&value, merges_paths),
            _ => value,
        }
    }

    /// Returns the question if it is within the bounds. An address that cannot be read is missing: a client may have chosen
    /// it, and rules that do not need it decide nevertheless.
    pub(super) fn within_bounds(mut self) -> Result<Self, String> {
        if self.attributes.len() > ATTRIBUTES {
            return Err(format!("attributes: at most {ATTRIBUTES} are possible"));
        }
        if let Some(text) = self.attributes.remove(ADDRESS) {
            match spelling::address(&text) {
                Some(address) => drop(self.attributes.insert(ADDRESS.to_owned(), address.to_string())),
                None => self.unreadable += 1,
            }
        }
        let connection = match self.connection {
            Named::Connection(connection) => {
                Named::Connection(connection.checked().map_err(|error| error.to_string())?)
            }
            named => named,
        };
        Ok(Self { connection, ..self })
    }
}

impl Batch {
    /// What it is as JSON.
    pub(super) const NAME: &str = "an object with requests";
    /// One as JSON.
    pub(super) const EXAMPLE: &str = r#"{"requests": [{"attributes": {"user": "17"}}]}"#;

    /// Returns the batch of these parts of one request. A connection that one of them names is that of all.
    pub(super) fn of_parts(mut requests: Vec<Question>) -> Self {
        let named = requests.iter().map(|part| part.connection).find(|named| *named != Named::Nothing);
        for part in requests.iter_mut().filter(|part| part.connection == Named::Nothing) {
            part.connection = named.unwrap_or_default();
        }
        Self { is_one: true, requests }
    }

    /// Returns the questions of a caller with this address: see [`Question::from`].
    pub(super) fn from(self, peer: Option<Peer>) -> Self {
        Self { requests: self.requests.into_iter().map(|question| question.from(peer)).collect(), ..self }
    }

    /// Returns the requests, if all are within the bounds.
    pub(super) fn within_bounds(self) -> Result<Requests, String> {
        if !(1..=BATCH).contains(&self.requests.len()) {
            return Err(format!("requests: expected 1 to {BATCH} of them"));
        }
        let mut requests = Requests { is_one: self.is_one, ..Requests::default() };
        for (number, question) in (1..).zip(self.requests) {
            let within = question.within_bounds().map_err(|problem| format!("request {number}: {problem}"));
            let Question { attributes, cost, connection, unreadable } = within?;
            requests.unreadable += unreadable;
            requests.all.push((attributes, cost));
            requests.connections.push(connection);
        }
        Ok(requests)
    }
}
