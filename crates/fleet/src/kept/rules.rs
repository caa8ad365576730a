//! Rules of a fleet in the engine: one text with a version, and a log of changes.

use ratelimit_base::text::excerpt::excerpt;
use ratelimit_protocol::fleet::{Logged, Version};
use redis::Value;

use crate::{
    engine::Engine,
    error::Error,
    script::{Script, text},
};

/// The most bytes of the text of shared rules for packets.
pub const TEXT: usize = 128 << 10;
/// The most bytes of the texts in the log that one call reads.
const TEXTS: usize = 1 << 20;
/// The highest number that both sides can count.
const MOST: u64 = 1 << 53;
/// Seconds without a change after which a part of the log with a name goes: a year. Nobody reads it once no scope has the name.
const LIFE: u32 = 365 * 24 * 3_600;
/// The most bytes of a digest.
const DIGEST: usize = 40;

/// Which rules these are.
#[derive(Debug)]
pub struct Kind {
    /// Keys of the rules and of their log. A cluster serves both from one server.
    keys: [&'static str; 2],
    /// The most bytes of the text.
    pub text: usize,
    /// The most entries of the log.
    pub logged: usize,
}

/// Rules for packets.
pub const PACKETS: Kind = Kind { keys: ["{rl:m}:rules", "{rl:m}:log"], text: TEXT, logged: 100 };
/// Rules for requests that callers have written. An entry of their log is a change.
pub const REQUESTS: Kind = Kind { keys: ["{rl:m}:checks", "{rl:m}:checks:log"], text: 1 << 20, logged: 1_000 };

/// A part of the log, with a bound of its own.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name. The part without one has what belongs to no other.
    pub name: String,
    /// The most entries that it keeps.
    pub most: usize,
}

impl Part {
    /// Returns the part without a name, which can have as many entries.
    fn whole(most: usize) -> Self {
        Self { name: String::new(), most }
    }
}

/// What tells a version in the engine from others. The engine chooses the digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// The number of the version.
    pub version: u64,
    digest: String,
}

impl Mark {
    fn arguments(&self) -> [String; 2] {
        [self.version.to_string(), self.digest.clone()]
    }
}

/// The script that keeps the rules.
#[derive(Debug, Clone)]
pub struct Store {
    script: Script,
    kind: &'static Kind,
}

impl Default for Store {
    fn default() -> Self {
        Self::of(&PACKETS)
    }
}

impl Store {
    /// Keeps these rules.
    #[must_use]
    pub fn of(kind: &'static Kind) -> Self {
        Self { script: Script::new(include_str!("rules.lua")), kind }
    }

    /// Returns the version in the engine with its mark, unless it is the `known` one.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn read(&self, engine: &Engine, known: Option<&Mark>) -> Result<Option<(Mark, Version)>, Error> {
        let [number, digest] = known.map(Mark::arguments).unwrap_or_default();
        let values = self.ask(engine, &["read", &number, &digest, &self.kind.text.to_string()]).await?;
        let [version, digest, rest @ ..] = &values[..] else { return Err(Error::Garbage("it is too short")) };
        let (version, digest) = (self::number(version)?, text(digest)?);
        if digest.len() > DIGEST {
            return Err(Error::Garbage("a digest is too long"));
        }
        match rest {
            [] => Ok(None),
            [rules] if text(rules)?.len() <= self.kind.text => {
                let mark = Mark { version, digest: digest.to_owned() };
                Ok(Some((mark, Version { version, text: text(rules)?.to_owned() })))
            }
            _ => Err(Error::Garbage("the rules are too long")),
        }
    }

    /// Writes a version in place of `replaced`, and its text into the log. Returns false if another version is there.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn write(
        &self,
        engine: &Engine,
        replaced: &Mark,
        next: &Version,
        author: [&str; 2],
    ) -> Result<bool, Error> {
        self.change(engine, replaced, next, author, (&next.text, &Part::whole(self.kind.logged))).await
    }

    /// Writes a version in place of `replaced`, and another text into a part of the log. Returns false if another version is there.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn change(
        &self,
        engine: &Engine,
        replaced: &Mark,
        next: &Version,
        [who, why]: [&str; 2],
        (logged, part): (&str, &Part),
    ) -> Result<bool, Error> {
        let ([number, digest], version) = (replaced.arguments(), next.version.to_string());
        let (most, life) = (part.most.to_string(), LIFE.to_string());
        let mut arguments = vec!["write", &number, &digest, &version, &next.text, who, why, logged, &most];
        if !part.name.is_empty() {
            arguments.push(&life);
        }
        let values = self.ask_about(engine, &part.name, &arguments).await?;
        Ok(self::number(values.first().ok_or(Error::Garbage("it is empty"))?)? == 1)
    }

    /// Returns the versions of the log, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn log(&self, engine: &Engine) -> Result<Vec<Logged>, Error> {
        let values = self.ask(engine, &["log", &self.kind.logged.to_string(), &TEXTS.to_string()]).await?;
        let (entries, rest) = values.as_chunks::<5>();
        let bytes = |entry: &[Value; 5]| if let Value::BulkString(bytes) = &entry[4] { bytes.len() } else { 0 };
        let most = TEXTS + self.kind.logged;
        if !rest.is_empty() || entries.len() > self.kind.logged || entries.iter().map(bytes).sum::<usize>() > most {
            return Err(Error::Garbage("it has another number of entries"));
        }
        let logged = |[version, at, who, why, rules]: &[Value; 5]| {
            let (version, at_milliseconds) = (number(version)?, number(at)?);
            let (who, why, text) = (excerpt(text(who)?), excerpt(text(why)?), text(rules)?.strip_prefix('='));
            Ok(Logged { version, at_milliseconds, who, why, text: text.map(ToOwned::to_owned) })
        };
        entries.iter().map(logged).collect()
    }

    /// Returns the text of a version of the log, if it is still there.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn text(&self, engine: &Engine, version: u64) -> Result<Option<String>, Error> {
        let values = self.ask(engine, &["text", &version.to_string()]).await?;
        values.first().map(|value| text(value).map(ToOwned::to_owned)).transpose()
    }

    /// Returns the texts of a part of the log, the newest first. There are fewer than `most` if they are large.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn texts(&self, engine: &Engine, part: &str, most: usize) -> Result<Vec<String>, Error> {
        let values = self.ask_about(engine, part, &["texts", &most.to_string(), &TEXTS.to_string()]).await?;
        let texts = values.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        if texts.len() > most || texts.iter().map(|text| text.len()).sum::<usize>() > TEXTS {
            return Err(Error::Garbage("the log is too long"));
        }
        Ok(texts.into_iter().map(ToOwned::to_owned).collect())
    }

    async fn ask(&self, engine: &Engine, arguments: &[&str]) -> Result<Vec<Value>, Error> {
        self.ask_about(engine, "", arguments).await
    }

    async fn ask_about(&self, engine: &Engine, part: &str, arguments: &[&str]) -> Result<Vec<Value>, Error> {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|text| text.as_bytes().to_vec()).collect();
        let [rules, log] = self.kind.keys;
        let log = if part.is_empty() { log.to_owned() } else { format!("{log}:{part}") };
        engine.run(&self.script, &[rules, &log], &arguments).await
    }
}

fn number(value: &Value) -> Result<u64, Error> {
    let number = text(value)?.parse().ok().filter(|number| *number <= MOST);
    number.ok_or(Error::Garbage("a value is not a number"))
}
