//! The shared rules of a fleet in the engine: one text with a version, and a log of earlier versions.

use redis::Value;
use serde::{Deserialize, Serialize};

use crate::{
    fleet::{
        engine::Engine,
        error::Error,
        script::{Script, text},
    },
    text::excerpt::excerpt,
};

/// Keys of the rules and of their log. A cluster serves both from one server.
const KEYS: [&str; 2] = ["{rl:m}:rules", "{rl:m}:log"];
/// The most bytes of the text.
pub const TEXT: usize = 128 << 10;
/// The highest number that both sides can count.
const MOST: u64 = 1 << 53;
/// The most bytes of a digest.
const DIGEST: usize = 40;
/// The most versions of a log.
const LOGGED: usize = 100;

/// A version of the rules. Version 0 has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its number.
    pub version: u64,
    /// The rules.
    pub text: String,
}

/// What tells a version in the engine from others. The engine chooses the digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// The number of the version.
    pub version: u64,
    digest: String,
}

/// A version in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// Its number.
    pub version: u64,
    /// When it was written, in milliseconds since 1970.
    pub at_milliseconds: u64,
    /// Who has written it.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Mark {
    fn arguments(&self) -> [String; 2] {
        [self.version.to_string(), self.digest.clone()]
    }
}

/// The script that keeps the rules.
#[derive(Debug, Clone)]
pub struct Store(Script);

impl Default for Store {
    fn default() -> Self {
        Self(Script::new(include_str!("rules.lua")))
    }
}

impl Store {
    /// Returns the version in the engine with its mark, unless it is the `known` one.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn read(&self, engine: &Engine, known: Option<&Mark>) -> Result<Option<(Mark, Version)>, Error> {
        let [number, digest] = known.map(Mark::arguments).unwrap_or_default();
        let values = self.ask(engine, &["read", &number, &digest]).await?;
        let [version, digest, rest @ ..] = &values[..] else { return Err(Error::Garbage("it is too short")) };
        let (version, digest) = (self::number(version)?, text(digest)?);
        if digest.len() > DIGEST {
            return Err(Error::Garbage("a digest is too long"));
        }
        match rest {
            [] => Ok(None),
            [rules] if text(rules)?.len() <= TEXT => {
                let mark = Mark { version, digest: digest.to_owned() };
                Ok(Some((mark, Version { version, text: text(rules)?.to_owned() })))
            }
            _ => Err(Error::Garbage("the rules are too long")),
        }
    }

    /// Writes a version in place of `replaced`. Returns false if another version is there.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn write(
        &self,
        engine: &Engine,
        replaced: &Mark,
        next: &Version,
        [who, why]: [&str; 2],
    ) -> Result<bool, Error> {
        let ([number, digest], version) = (replaced.arguments(), next.version.to_string());
        let values = self.ask(engine, &["write", &number, &digest, &version, &next.text, who, why]).await?;
        Ok(self::number(values.first().ok_or(Error::Garbage("it is empty"))?)? == 1)
    }

    /// Returns the versions of the log, the newest first.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn log(&self, engine: &Engine) -> Result<Vec<Logged>, Error> {
        let values = self.ask(engine, &["log", &LOGGED.to_string()]).await?;
        let (entries, rest) = values.as_chunks::<4>();
        if !rest.is_empty() || entries.len() > LOGGED {
            return Err(Error::Garbage("it has another number of entries"));
        }
        let logged = |[version, at, who, why]: &[Value; 4]| {
            let (version, at_milliseconds) = (number(version)?, number(at)?);
            Ok(Logged { version, at_milliseconds, who: excerpt(text(who)?), why: excerpt(text(why)?) })
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

    async fn ask(&self, engine: &Engine, arguments: &[&str]) -> Result<Vec<Value>, Error> {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|text| text.as_bytes().to_vec()).collect();
        engine.run(&self.0, &KEYS, &arguments).await
    }
}

fn number(value: &Value) -> Result<u64, Error> {
    let number = text(value)?.parse().ok().filter(|number| *number <= MOST);
    number.ok_or(Error::Garbage("a number is no number"))
}
