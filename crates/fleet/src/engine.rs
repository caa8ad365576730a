//! The engine: a server that speaks the protocol of Redis, or the hosts themselves. It holds one record for each busy
//! source.
//!
//! Nothing that it answers is trusted. An answer that makes no sense is an error, and the limits of this host stand.

use std::time::Duration;

use ratelimit_base::text::excerpt::excerpt;
use ratelimit_common::fleet::share::{Answer, Terms};
use redis::{Cmd, FromRedisValue, RedisResult, cmd, from_redis_value};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    address::{Address, Link},
    error::Error,
    gossip::mesh::Mesh,
    key::PARTITIONS,
    script::Script,
    wire,
};
pub use crate::{gossip::message::Message, wire::Answers};

/// Reports of one call. Larger calls would make the server slow for others.
const REPORTS: usize = 250;
/// The longest time for which a call waits.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// The connection to an engine. Copies share it.
#[derive(Clone)]
pub struct Engine {
    at: At,
    shares: Script,
    deadline: Duration,
}

/// Where an engine is.
#[derive(Clone)]
enum At {
    Server(Link),
    Hosts(Mesh),
}

/// The answers to messages, and why some have none.
pub type Outcome = (Vec<Option<Answer>>, Option<Error>);
/// Calls under way, each with the indices of its messages.
type Calls = JoinSet<Result<(Vec<usize>, Answers), Error>>;

impl Engine {
    /// Connects within this time. Calls have the same deadline at first. See [`Self::within`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it cannot be reached, [`Error::Server`] if it refuses, and [`Error::Silent`] if it does not answer in time.
    pub async fn connect(address: &Address, patience: Duration) -> Result<Self, Error> {
        let link = timeout(patience, address.connect(patience)).await.map_err(|_| Error::Silent(patience))??;
        Ok(Self::at(At::Server(link), patience))
    }

    /// Returns an engine on each host.
    pub(super) fn of_hosts(mesh: Mesh, deadline: Duration) -> Self {
        Self::at(At::Hosts(mesh), deadline)
    }

    fn at(at: At, deadline: Duration) -> Self {
        Self { at, shares: Script::new(include_str!("shares.lua")), deadline }
    }

    /// Returns the hosts, if there is no server.
    pub(super) fn mesh(&self) -> Option<&Mesh> {
        if let At::Hosts(mesh) = &self.at { Some(mesh) } else { None }
    }

    /// Returns which of several servers it is. None for a cluster, or without another server.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        if let At::Server(link) = &self.at { link.server() } else { None }
    }

    /// Returns the same connection, whose calls fail if they take longer than `deadline`. See [`deadline`].
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Reports to the engine, and returns its answers in the order of the messages. If a call fails, its messages have no
    /// answers, and the error is that of one such call. The calls begin at once.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn report(&self, terms: &Terms, messages: &[Message]) -> impl Future<Output = Outcome> + use<> {
        let count = messages.len();
        let begun = match &self.at {
            At::Hosts(mesh) => Err(mesh.report(terms, messages)),
            At::Server(_) => Ok(self.begin(terms, messages)),
        };
        async move {
            match begun {
                Ok(calls) => all(calls, count).await,
                Err(done) => done,
            }
        }
    }

    /// Begins the calls with these messages.
    fn begin(&self, terms: &Terms, messages: &[Message]) -> Calls {
        let mut counts = [0; PARTITIONS as usize];
        messages.iter().for_each(|message| counts[usize::from(message.key.partition())] += 1);
        let mut partitions = counts.map(Vec::with_capacity);
        for (index, message) in messages.iter().enumerate() {
            partitions[usize::from(message.key.partition())].push(index);
        }
        let (mut calls, least) = (JoinSet::new(), terms.least);
        for indices in partitions.iter().flat_map(|indices| indices.chunks(REPORTS)) {
            let call = self.reports(terms, indices.iter().map(|index| &messages[*index]));
            let (engine, indices) = (self.clone(), indices.to_vec());
            calls.spawn(async move {
                let answers = engine.answers(&call, indices.len(), least).await?;
                Ok((indices, answers))
            });
        }
        calls
    }

    /// Sends messages of one partition.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn call(&self, terms: &Terms, messages: &[Message]) -> Result<Answers, Error> {
        self.answers(&self.reports(terms, messages.iter()), messages.len(), terms.least).await
    }

    /// Returns the call with these messages of one partition.
    fn reports<'a>(&self, terms: &Terms, messages: impl ExactSizeIterator<Item = &'a Message> + Clone) -> Cmd {
        let mut reports = Vec::with_capacity(messages.len() * wire::REPORT);
        messages.clone().for_each(|message| wire::write_report(&mut reports, &message.limit, &message.report));
        self.shares.call(messages.map(|message| message.key.as_bytes()), &[wire::terms(terms), reports])
    }

    /// Makes a call with so many messages.
    async fn answers(&self, call: &Cmd, count: usize, least: f64) -> Result<Answers, Error> {
        let mut link = self.link()?;
        let answer = async { Ok(from_redis_value::<Vec<u8>>(self.shares.run(&mut link, call).await?)?) };
        let answer = self.in_time(answer).await?;
        wire::read(&answer, count, least)
    }

    /// Returns the rule by which the server forgets keys if its memory is full. None if it does not, or is a cluster.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL, also if this user may not ask.
    pub async fn evicts(&self) -> Result<Option<String>, Error> {
        let At::Server(Link::One { .. }) = self.at else { return Ok(None) };
        let mut link = self.link()?;
        let mut question = cmd("INFO");
        question.arg("memory");
        let info: String = self.in_time(async { Ok(from_redis_value(link.ask(&question).await?)?) }).await?;
        Ok(evicts(&info).map(excerpt))
    }

    /// Returns whether it is a cluster of which a server answers.
    pub async fn answers_in_part(&self) -> bool {
        let At::Server(link @ Link::Cluster(_)) = &self.at else { return false };
        let mut calls = JoinSet::new();
        for partition in 0..PARTITIONS {
            let (engine, mut link, mut question) = (self.clone(), link.clone(), cmd("GET"));
            question.arg(format!("{{rl:{partition:02x}}}"));
            calls.spawn(async move { engine.in_time(link.ask(&question)).await.is_ok() });
        }
        while let Some(is_answered) = calls.join_next().await {
            if is_answered.unwrap_or(false) {
                return true;
            }
        }
        false
    }

    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[Vec<u8>],
    ) -> Result<T, Error> {
        let mut link = self.link()?;
        let call = script.call(keys.iter().map(|key| key.as_bytes()), arguments);
        self.in_time(async { Ok(from_redis_value(script.run(&mut link, &call).await?)?) }).await
    }

    fn link(&self) -> Result<Link, Error> {
        if let At::Server(link) = &self.at { Ok(link.clone()) } else { Err(Error::NeedsServer) }
    }

    async fn in_time<T>(&self, call: impl Future<Output = RedisResult<T>>) -> Result<T, Error> {
        Ok(timeout(self.deadline, call).await.map_err(|_| Error::Silent(self.deadline))??)
    }
}

/// Waits for the answers to so many messages.
async fn all(mut calls: Calls, count: usize) -> Outcome {
    let (mut answers, mut failure) = (vec![None; count], None);
    while let Some(done) = calls.join_next().await {
        match done.unwrap_or(Err(Error::Garbage("a call has failed"))) {
            Ok((indices, done)) => {
                for (index, answer) in indices.into_iter().zip(done.answers) {
                    answers[index] = Some(answer);
                }
            }
            Err(error) => failure = Some(error),
        }
    }
    (answers, failure)
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
}
