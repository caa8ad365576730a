//! The engine: a server that speaks the protocol of Redis. It holds one record for each busy source.
//!
//! Nothing that it answers is trusted. An answer that makes no sense is an error, and the limits of this host stand.

use std::{collections::HashMap, time::Duration};

use ratelimit_common::fleet::share::{Answer, Limit, Report, Terms};
use redis::{
    Client, RedisError, Script, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tokio::{task::JoinSet, time::timeout};

use crate::fleet::key::Key;

/// Reports of one call. Larger calls would make the server slow for others.
const REPORTS: usize = 250;
/// The longest time for which a call waits.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// What keeps the engine from answering.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL makes no sense.
    #[error("engine: {0}: expected a URL such as redis://10.0.0.1:6379")]
    Url(String),
    /// The server refuses, or cannot be reached.
    #[error("engine: {0}")]
    Server(String),
    /// The server has not answered in time.
    #[error("engine: no answer within {} ms", .0.as_millis())]
    Silent(Duration),
    /// The answer makes no sense.
    #[error("engine: its answer makes no sense: {0}")]
    Garbage(&'static str),
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        Self::Server(one_line(&error))
    }
}

/// The most characters of a message that the server may choose.
const MESSAGE: usize = 120;

/// Returns an error as one short line without control characters, since the server may choose its text.
fn one_line(error: &RedisError) -> String {
    let text = error.to_string();
    text.split(char::is_control)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MESSAGE)
        .collect()
}

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
    script: Script,
    terms: Terms,
    deadline: Duration,
}

/// What the engine answers to some messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Time of its clock, in seconds.
    pub time: f64,
    /// One for each message, in the same order.
    pub answers: Vec<Answer>,
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
    /// [`Error::Url`] if the URL makes no sense.
    pub fn new(url: &str, terms: Terms, deadline: Duration) -> Result<Self, Error> {
        let client = Client::open(url).map_err(|error| Error::Url(one_line(&error)))?;
        // The caller decides when to try again.
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(deadline))
            .set_response_timeout(Some(deadline))
            .set_number_of_retries(0);
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        Ok(Self { connection, script: Script::new(include_str!("shares.lua")), terms, deadline })
    }

    /// Reports to the engine, and returns its answers in the order of the messages. The messages of one call fail
    /// together.
    ///
    /// # Errors
    ///
    /// The first failure of a call. Some messages may have reached the engine.
    pub async fn report(&self, messages: &[Message]) -> Result<Vec<Answer>, Error> {
        let mut partitions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            partitions.entry(message.key.partition()).or_default().push(index);
        }
        let mut calls = JoinSet::new();
        for indices in partitions.values().flat_map(|indices| indices.chunks(REPORTS)) {
            let (engine, indices) = (self.clone(), indices.to_vec());
            let messages: Vec<_> = indices.iter().map(|index| messages[*index].clone()).collect();
            calls.spawn(async move { Ok::<_, Error>((indices, engine.call(&messages).await?)) });
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
    pub async fn call(&self, messages: &[Message]) -> Result<Answers, Error> {
        let Terms { period, floor, least } = self.terms;
        let mut call = self.script.prepare_invoke();
        for number in [period, floor, least] {
            call.arg(number);
        }
        for Message { key, limit, report } in messages {
            call.key(key.as_str());
            for number in [limit.rate, limit.burst, report.offered, report.admitted, report.own, report.weight] {
                call.arg(number);
            }
            call.arg(report.record);
        }
        let mut connection = self.connection.clone();
        let values = timeout(self.deadline, call.invoke_async(&mut connection)).await;
        let values: Vec<Value> = values.map_err(|_| Error::Silent(self.deadline))??;
        parse(&values, messages.len(), least)
    }
}

/// Returns the time for which a call of a host that reports by these terms should wait.
#[must_use]
pub fn deadline(terms: &Terms) -> Duration {
    Duration::from_secs_f64(terms.period).min(LONGEST_WAIT)
}

/// Reads the answers to `count` messages.
fn parse(values: &[Value], count: usize, least: f64) -> Result<Answers, Error> {
    let [time, answers @ ..] = values else { return Err(Error::Garbage("it is empty")) };
    if answers.len() != 2 * count {
        return Err(Error::Garbage("it has another number of answers"));
    }
    let time = number(time)?;
    let answers = answers.chunks_exact(2).map(|answer| {
        let record = number(&answer[0])?;
        if record < 1.0 || record.fract() != 0.0 {
            return Err(Error::Garbage("a record has no whole number"));
        }
        let share = match &answer[1] {
            Value::BulkString(bytes) if bytes.is_empty() => None,
            share => Some(number(share)?),
        };
        if share.is_some_and(|share| !(least..=1.0).contains(&share)) {
            return Err(Error::Garbage("a share is not between the least one and 1"));
        }
        Ok(Answer { share, record: record as u64 })
    });
    Ok(Answers { time, answers: answers.collect::<Result<_, _>>()? })
}

/// Reads a number that is finite.
fn number(value: &Value) -> Result<f64, Error> {
    let Value::BulkString(bytes) = value else { return Err(Error::Garbage("a number is missing")) };
    let text = str::from_utf8(bytes).ok();
    let number = text.and_then(|text| text.parse().ok()).filter(|number: &f64| number.is_finite());
    number.ok_or(Error::Garbage("a number is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(texts: &[&str], count: usize) -> Result<Answers, Error> {
        let values: Vec<_> = texts.iter().map(|text| Value::BulkString(text.as_bytes().to_vec())).collect();
        parse(&values, count, 0.001)
    }

    #[test]
    fn answers_have_a_record_and_perhaps_a_share() {
        let expected = vec![Answer { share: Some(0.25), record: 7 }, Answer { share: None, record: 8 }];
        let answers = answer(&["12.5", "7", "0.25", "8", ""], 2).unwrap();
        assert_eq!(answers, Answers { time: 12.5, answers: expected });
    }

    #[test]
    fn answers_that_make_no_sense_are_errors() {
        for (texts, count) in [
            (&[][..], 0),
            (&["1"], 1),
            (&["1", "7"], 1),
            (&["1", "7", "0.5", "8", "0.5"], 1),
            (&["now", "7", "0.5"], 1),
            (&["1", "", "0.5"], 1),
            (&["1", "0", "0.5"], 1),
            (&["1", "1.5", "0.5"], 1),
            (&["1", "-7", "0.5"], 1),
            (&["1", "inf", "0.5"], 1),
            (&["1", "7", "nan"], 1),
            (&["1", "7", "0"], 1),
            (&["1", "7", "-1"], 1),
            (&["1", "7", "1.1"], 1),
            (&["1", "7", "0.0001"], 1),
            (&["1", "7", "garbage"], 1),
        ] {
            assert!(matches!(answer(texts, count), Err(Error::Garbage(_))), "{texts:?}");
        }
        assert!(parse(&[Value::Nil], 0, 0.1).is_err());
        assert!(parse(&[Value::Int(1), Value::Int(1), Value::Int(1)], 1, 0.1).is_err());
    }
}
