//! What hosts of a fleet tell each other of sources that they deny.

use std::{fmt::Display, marker::PhantomData, str::FromStr, time::Duration};

use ratelimit_base::text::{excerpt::escaped, prefix::Prefix};
use redis::Value;

use crate::{
    engine::Engine,
    error::Error,
    key,
    script::{Script, text},
};

/// The keys of what hosts have told. A cluster serves both from one server.
const KEYS: [&str; 2] = ["{rl:m}:bans", "{rl:m}:stream"];
/// The most entries of one answer.
pub const ANSWERS: usize = 1_000;
/// The most entries that a host tells in one call.
pub const TELLS: usize = 500;
/// About how many entries the engine keeps.
const KEPT: usize = 20_000;
/// The longest time for which a host tells that a source is denied. It tells so again before that ends.
pub const LONGEST: Duration = Duration::from_secs(3_600);
/// The beginning of the stream.
const BEGIN: &str = "0-0";
/// The most bytes of an entry's number.
const NUMBER: usize = 48;
/// The most bytes of a host's name with its number.
const HOST: usize = 80;

/// What a host tells of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<S = Prefix> {
    /// The source.
    pub source: S,
    /// The host: see [`host`].
    pub host: String,
    /// How long the source is denied there. Zero if it is not any more.
    pub left: Duration,
}

/// What hosts have told since the last call.
#[derive(Debug, PartialEq, Eq)]
pub struct News<S = Prefix> {
    /// Whether the engine has lost what was told before.
    pub is_anew: bool,
    /// The entries in order.
    pub told: Vec<Told<S>>,
    /// Whether there may be more.
    pub has_more: bool,
}

impl<S> Default for News<S> {
    fn default() -> Self {
        Self { is_anew: false, told: Vec::new(), has_more: false }
    }
}

/// Returns how a host calls itself: its name, and a number of what else tells it apart. So hosts with the same name do not
/// speak for each other.
#[must_use]
pub fn host(name: &str, apart: &str) -> String {
    format!("{name}#{:08x}", key::fnv(&format!("ratelimit {apart}")) as u32)
}

/// Returns the name of a host that calls itself so.
#[must_use]
pub fn name(host: &str) -> &str {
    host.rsplit_once('#').map_or(host, |(name, _)| name)
}

/// The place of this host in what all have told.
pub struct Exchange<S = Prefix> {
    script: Script,
    keys: [&'static str; 2],
    host: String,
    /// Number of the stream. Empty at the start.
    stream: String,
    last: String,
    told: PhantomData<S>,
}

impl Exchange {
    /// Begins with everything that the engine knows, for this [host].
    #[must_use]
    pub fn of(host: String) -> Self {
        Self::with(KEYS, host)
    }
}

impl<S: Display + FromStr> Exchange<S> {
    /// Begins with everything that the engine knows in a stream and its number, for this [host].
    pub(super) fn with(keys: [&'static str; 2], host: String) -> Self {
        let (script, stream, last) = (Script::new(include_str!("bans.lua")), String::new(), BEGIN.to_owned());
        Self { script, keys, host, stream, last, told: PhantomData }
    }

    /// Tells what this host denies, at most [`TELLS`] sources, and returns what is new. That includes what was just told.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn exchange(&mut self, engine: &Engine, tells: &[(S, Duration)]) -> Result<News<S>, Error> {
        let silent = 2 * LONGEST.as_millis();
        let known = [self.stream.clone(), self.last.clone()];
        let fixed = [ANSWERS.to_string(), KEPT.to_string(), silent.to_string(), self.host.clone()];
        let told = tells.iter().flat_map(|(source, left)| [source.to_string(), left.as_millis().to_string()]);
        let arguments: Vec<Vec<u8>> = known.into_iter().chain(fixed).chain(told).map(String::into_bytes).collect();
        let values: Vec<Value> = engine.run(&self.script, &self.keys, &arguments).await?;
        let ([stream, last], news) = read(&values)?;
        let is_anew = !self.stream.is_empty() && self.stream != stream;
        (self.stream, self.last) = (stream, last);
        Ok(News { is_anew, ..news })
    }
}

/// Reads an answer: the numbers of the stream and of its last entry, and the entries. Those that make no sense are left out, since other hosts
/// have written them.
fn read<S: FromStr>(values: &[Value]) -> Result<([String; 2], News<S>), Error> {
    let [stream, last, entries @ ..] = values else { return Err(Error::Garbage("it is empty")) };
    let numbers = [text(stream)?, text(last)?];
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let are_numbers = numbers.iter().all(|number| (1..=NUMBER).contains(&number.len()) && number.bytes().all(is_digit));
    let (entries, rest) = entries.as_chunks::<3>();
    if !are_numbers || !rest.is_empty() || entries.len() > ANSWERS {
        return Err(Error::Garbage("it has another number of entries"));
    }
    let told = |[source, host, left]: &[Value; 3]| {
        let left: u64 = text(left).ok()?.parse().ok()?;
        let left = Duration::from_millis(left).min(LONGEST);
        let host = text(host).ok().filter(|host| host.len() <= HOST)?;
        Some(Told { source: text(source).ok()?.parse().ok()?, host: escaped(host), left })
    };
    let has_more = entries.len() == ANSWERS;
    let news = News { is_anew: false, told: entries.iter().filter_map(told).collect(), has_more };
    Ok((numbers.map(ToOwned::to_owned), news))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(texts: &[&str]) -> Result<([String; 2], News), Error> {
        let values: Vec<_> = texts.iter().map(|text| Value::BulkString(text.as_bytes().to_vec())).collect();
        read(&values)
    }

    #[test]
    fn entries_that_make_no_sense_are_left_out_and_times_are_bounded() {
        let entries = [
            ["192.0.2.1", "web1", "1500"],
            ["192.0.2", "web1", "1500"],
            ["192.0.2.2", "web1", "-1"],
            ["192.0.2.3", "web1", "1e3"],
            ["2001:db8::/64", "we\x1bb2", "99999999999999"],
            ["192.0.2.4", "web1", "0"],
        ];
        let all: Vec<&str> = ["1.5", "7-0"].into_iter().chain(entries.into_iter().flatten()).collect();
        let ([stream, last], news) = answer(&all).unwrap();
        let told =
            |source: &str, host: &str, left| Told { source: source.parse().unwrap(), host: host.to_owned(), left };
        let expected = [
            told("192.0.2.1", "web1", Duration::from_millis(1_500)),
            told("2001:db8::/64", "we\\u{1b}b2", LONGEST),
            told("192.0.2.4", "web1", Duration::ZERO),
        ];
        assert_eq!((stream.as_str(), last.as_str(), news.has_more), ("1.5", "7-0", false));
        assert_eq!(news.told, expected);
    }

    #[test]
    fn hosts_of_the_same_name_are_told_apart_by_their_machines() {
        let [one, other] = ["1", "2"].map(|machine| host("web#1", machine));
        assert_ne!(one, other);
        assert_eq!((one.clone(), name(&one)), (host("web#1", "1"), "web#1"));
        assert_eq!(name("web"), "web");
    }

    #[test]
    fn answers_that_make_no_sense_are_errors() {
        let long = "1".repeat(100);
        for texts in [&[][..], &["0"], &["0", "x"], &["", "1-0"], &["0", "1-0", "192.0.2.1"], &["0", &long]] {
            assert!(matches!(answer(texts), Err(Error::Garbage(_))), "{texts:?}");
        }
        assert!(read::<Prefix>(&[Value::Nil, Value::Nil]).is_err());
        let many: Vec<&str> = ["0", "1-0"].into_iter().chain(["192.0.2.1", "a", "1"].repeat(ANSWERS + 1)).collect();
        assert!(answer(&many).is_err());
    }
}
