//! The engine: a server that speaks the protocol of Redis. It holds one record for each busy source.
//!
//! Nothing that it answers is trusted. An answer that makes no sense is an error, and the limits of this host stand.

use std::{collections::HashMap, fmt, time::Duration};

use ratelimit_common::fleet::share::{Answer, Limit, Report, Terms};
use redis::{
    Client, ConnectionInfo, FromRedisValue, IntoConnectionInfo as _, Script, ScriptInvocation,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tokio::{task::JoinSet, time::timeout};

pub use crate::fleet::wire::Answers;
use crate::{
    fleet::{
        error::{Error, one_line},
        key::Key,
        wire,
    },
    text::excerpt::excerpt,
};

/// Reports of one call. Larger calls would make the server slow for others.
const REPORTS: usize = 250;
/// The longest time for which a call waits.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Where an engine is, and who may ask it.
#[derive(Clone)]
pub struct Address(ConnectionInfo);

/// A report about one source.
#[derive(Debug, Clone)]
pub struct Message {
    /// Key of its record.
    pub key: Key,
    /// Its limit.
    pub limit: Limit,
    /// What this host has seen.
    pub report: Report,
}

/// The connection to an engine. Copies share it.
#[derive(Clone)]
pub struct Engine {
    connection: ConnectionManager,
    shares: Script,
    deadline: Duration,
}

impl Address {
    /// Parses a URL. A user and a password replace those in it.
    ///
    /// # Errors
    ///
    /// [`Error::Url`] if it makes no sense.
    pub fn new(url: &str, user: Option<&str>, password: Option<&str>) -> Result<Self, Error> {
        let wrong = |error| Error::Url(one_line(&error));
        let info = url.into_connection_info().map_err(wrong)?;
        let mut settings = info.redis_settings().clone();
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        let info = info.set_redis_settings(settings);
        // The library refuses what it was not built for.
        Client::open(info.clone()).map_err(wrong)?;
        Ok(Self(info))
    }
}

impl fmt::Display for Address {
    /// Writes host and port, without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.addr())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        let of = |Self(info): &Self| {
            let settings = info.redis_settings();
            (
                info.addr().clone(),
                settings.username().map(ToOwned::to_owned),
                settings.password().map(ToOwned::to_owned),
            )
        };
        of(self) == of(other)
    }
}

impl Engine {
    /// Prepares a connection, which is made with the first call, and made again after a failure. A call that takes longer
    /// than `deadline` fails. See [`deadline`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Url`] if the library refuses the address.
    pub fn new(Address(info): &Address, deadline: Duration) -> Result<Self, Error> {
        let client = Client::open(info.clone()).map_err(|error| Error::Url(one_line(&error)))?;
        // The caller decides when to try again.
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(deadline))
            .set_response_timeout(Some(deadline))
            .set_number_of_retries(0);
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        Ok(Self { connection, shares: Script::new(include_str!("shares.lua")), deadline })
    }

    /// Returns the same connection with another deadline of its calls.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Reports to the engine, and returns its answers in the order of the messages. The messages of one call fail
    /// together.
    ///
    /// # Errors
    ///
    /// The first failure of a call. Some messages may have reached the engine.
    pub async fn report(&self, terms: &Terms, messages: &[Message]) -> Result<Vec<Answer>, Error> {
        let mut partitions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            partitions.entry(message.key.partition()).or_default().push(index);
        }
        let mut calls = JoinSet::new();
        for indices in partitions.values().flat_map(|indices| indices.chunks(REPORTS)) {
            let (engine, terms, indices) = (self.clone(), *terms, indices.to_vec());
            let messages: Vec<_> = indices.iter().map(|index| messages[*index].clone()).collect();
            calls.spawn(async move { Ok::<_, Error>((indices, engine.call(&terms, &messages).await?)) });
        }
        let mut answers = vec![None; messages.len()];
        while let Some(done) = calls.join_next().await {
            let (indices, done) = done.map_err(|_| Error::Garbage("a call has failed"))??;
            for (index, answer) in indices.into_iter().zip(done.answers) {
                answers[index] = Some(answer);
            }
        }
        answers.into_iter().collect::<Option<_>>().ok_or(Error::Garbage("an answer is missing"))
    }

    /// Sends messages of one partition.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn call(&self, terms: &Terms, messages: &[Message]) -> Result<Answers, Error> {
        let mut call = self.shares.prepare_invoke();
        let mut reports = Vec::new();
        for Message { key, limit, report } in messages {
            call.key(key.as_str());
            wire::write_report(&mut reports, limit, report);
        }
        call.arg(wire::terms(terms)).arg(reports);
        let answer: Vec<u8> = self.invoke(&call).await?;
        wire::read(&answer, messages.len(), terms.least)
    }

    /// Returns the rule by which the server forgets keys if its memory is full. None if it does not.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL, also if this user may not ask.
    pub async fn evicts(&self) -> Result<Option<String>, Error> {
        let mut connection = self.connection.clone();
        let mut call = redis::cmd("INFO");
        let answer = timeout(self.deadline, call.arg("memory").query_async::<String>(&mut connection)).await;
        let info = answer.map_err(|_| Error::Silent(self.deadline))??;
        Ok(evicts(&info).map(excerpt))
    }

    /// Runs a script within the deadline.
    pub(super) async fn invoke<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Result<T, Error> {
        let mut connection = self.connection.clone();
        let answer = timeout(self.deadline, call.invoke_async(&mut connection)).await;
        Ok(answer.map_err(|_| Error::Silent(self.deadline))??)
    }
}

/// Returns the rule by which a server with this section of INFO forgets keys.
fn evicts(info: &str) -> Option<&str> {
    let value = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let has_end = value("maxmemory").is_some_and(|bytes| bytes.trim() != "0");
    value("maxmemory_policy").map(str::trim).filter(|policy| has_end && *policy != "noeviction")
}

/// Returns the time for which a call of a host that reports by these terms should wait.
#[must_use]
pub fn deadline(terms: &Terms) -> Duration {
    Duration::from_secs_f64(terms.period).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_with_a_memory_limit_forgets_keys() {
        let info =
            |bytes, policy| format!("# Memory\r\nused_memory:1\r\nmaxmemory:{bytes}\r\nmaxmemory_policy:{policy}\r\n");
        assert_eq!(evicts(&info(0, "allkeys-lru")), None);
        assert_eq!(evicts(&info(1_000, "noeviction")), None);
        assert_eq!(evicts(&info(1_000, "allkeys-lru")), Some("allkeys-lru"));
        assert_eq!(evicts(""), None);
    }

    #[test]
    fn an_address_shows_no_password() {
        let address = Address::new("redis://user:secret@10.0.0.1:6379", None, None).unwrap();
        assert_eq!(format!("{address} {address:?}"), "10.0.0.1:6379 Address(10.0.0.1:6379)");
        assert_ne!(address, Address::new("redis://10.0.0.1:6379", None, None).unwrap());
        assert_eq!(address, Address::new("redis://10.0.0.1:6379", Some("user"), Some("secret")).unwrap());
    }
}
