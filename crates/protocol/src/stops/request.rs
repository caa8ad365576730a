//! What an application asks for, in one line of JSON.

use std::net::SocketAddr;

use ratelimit_base::text::{
    excerpt::{escaped, excerpt},
    object::{from_slice, object},
    plain,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// The longest line in bytes.
pub const LINE: usize = 1_024;
/// The longest name of a rule in bytes.
const RULE: usize = 64;
/// The longest name of a client in bytes.
const CLIENT: usize = 256;

/// A TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// The address and port on this host.
    #[serde(deserialize_with = "end")]
    pub local: SocketAddr,
    /// Those of the other end.
    #[serde(deserialize_with = "end")]
    pub remote: SocketAddr,
}

fn end<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| {
        let found = excerpt(&text);
        D::Error::custom(format_args!("{found}: expected ADDRESS:PORT, such as 192.0.2.1:443 or [2001:db8::1]:443"))
    })
}

impl Connection {
    /// Returns the connection with IPv4 addresses in place of those that are mapped into IPv6.
    #[must_use]
    pub fn canonical(self) -> Self {
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        Self { local: canonical(self.local), remote: canonical(self.remote) }
    }

    /// Returns the connection as [`Self::canonical`], if both ends are of one family and have ports.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if they are not.
    pub fn checked(self) -> Result<Self, RequestError> {
        let connection = self.canonical();
        let Self { local, remote } = connection;
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(RequestError::Families);
        }
        if local.port() == 0 || remote.port() == 0 {
            return Err(RequestError::Port);
        }
        Ok(connection)
    }
}

/// A request to limit the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The connection of the client.
    #[serde(deserialize_with = "object")]
    pub connection: Connection,
    /// The rule that the client exceeds.
    pub rule: String,
    /// The client, as the application knows it. Any text: see [`Self::label`].
    pub client: String,
}

/// Why a line is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The line is too long.
    #[error("the line has more than {LINE} bytes: shorten the name of the client")]
    Long,
    /// The line is no JSON of this form.
    #[error("{0}: expected {{\"connection\": {{\"local\": …, \"remote\": …}}, \"rule\": …, \"client\": …}}")]
    Form(String),
    /// The two ends are of different families.
    #[error("the ends of the connection have different families: name both as the system does")]
    Families,
    /// A port is zero.
    #[error("a port of the connection is 0: name the ports of an open connection")]
    Port,
    /// The name of the rule is not one.
    #[error("`rule` has 1 to {RULE} small letters, digits, `-`, `_` and `.`: send the name of a rule")]
    Rule,
    /// The name of the client is too long.
    #[error("`client` has more than {CLIENT} bytes: shorten it")]
    Client,
}

/// Returns whether a text is the name of a rule.
pub fn is_rule(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    (1..=RULE).contains(&text.len()) && text.bytes().all(is_good)
}

impl Request {
    /// Reads a line without its end.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the line is not a request within all bounds.
    pub fn read(line: &[u8]) -> Result<Self, RequestError> {
        if line.len() > LINE {
            return Err(RequestError::Long);
        }
        let read: Self =
            from_slice(line, "an object").map_err(|error| RequestError::Form(escaped(&plain::json(&error))))?;
        let request = Self { connection: read.connection.checked()?, ..read };
        if !is_rule(&request.rule) {
            return Err(RequestError::Rule);
        }
        if request.client.len() > CLIENT {
            return Err(RequestError::Client);
        }
        Ok(request)
    }

    /// Writes it as a line without its end, with as much of the name of the client as has room.
    pub fn write(mut self) -> Vec<u8> {
        let mut most = CLIENT;
        loop {
            self.client.truncate(self.client.floor_char_boundary(most));
            // Characters that JSON escapes take more room.
            let line = serde_json::to_vec(&self).unwrap_or_default();
            if line.len() <= LINE || self.client.is_empty() {
                return line;
            }
            most = self.client.len() / 2;
        }
    }

    /// Returns the name of the client without characters that a terminal or a log would act on.
    pub fn label(&self) -> String {
        escaped(&self.client)
    }
}
