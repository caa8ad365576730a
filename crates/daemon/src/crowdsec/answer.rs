//! Answers of the local API to a question about its stream of decisions.

use std::{
    fmt,
    io::{BufReader, Read},
    marker::PhantomData,
    net::IpAddr,
    time::Duration,
};

use jiff::SignedDuration;
use ratelimit_base::text::{
    excerpt::escaped,
    prefix::{Prefix, PrefixError},
    tokens::Bounded,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// The most decisions of each kind in an answer. What a daemon can put in force is less.
const MOST: usize = 1 << 20;
/// The most characters of a text that is told.
const SHOWN: usize = 64;

/// What the API was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// All decisions.
    All,
    /// Those that have begun or ended since the question before.
    Changes,
}

/// A decision that denies a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) id: i64,
    pub(super) source: Prefix,
    pub(super) left: Duration,
}

/// An answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Decisions that stand.
    pub(super) new: Vec<Decision>,
    /// Numbers of decisions that have ended.
    pub(super) deleted: Vec<i64>,
    /// Decisions that are not put in force.
    pub(super) ignored: usize,
    /// The first of these, in words.
    pub(super) example: Option<String>,
}

/// Reason why an answer is not used.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// It is no JSON of this kind, or did not arrive as a whole.
    #[error("the answer cannot be used: {0}")]
    Json(#[from] serde_json::Error),
}

/// A decision as it is written. Every part can be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    id: i64,
    duration: Option<String>,
    scope: Option<String>,
    r#type: Option<String>,
    value: Option<String>,
    simulated: Option<bool>,
}

impl Answer {
    /// Reads an answer. Nothing of one that is not complete is returned.
    ///
    /// # Errors
    ///
    /// Fails if it is no such answer, or too large.
    pub fn read(source: impl Read, question: Question) -> Result<Self, AnswerError> {
        let mut reader = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, Bounded::of(source)));
        let answer = reader.deserialize_map(Whole { question })?;
        reader.end()?;
        Ok(answer)
    }

    /// Returns the number of decisions that stand, whether they are put in force or not.
    pub fn count(&self) -> usize {
        self.new.len() + self.ignored
    }

    /// Returns a decision that is not put in force, in words.
    pub fn example(&self) -> Option<&str> {
        self.example.as_deref()
    }

    fn add(&mut self, written: &Written) {
        match written.decision() {
            Ok(decision) => self.new.push(decision),
            Err(why) => {
                self.ignored += 1;
                self.example.get_or_insert(why);
            }
        }
    }
}

impl Written {
    /// Returns the decision, or why it is not put in force.
    fn decision(&self) -> Result<Decision, String> {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
        let [kind, scope, value, duration] = [&self.r#type, &self.scope, &self.value, &self.duration].map(text);
        let is = |text: &str, words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        if !is(&kind, &["ban"]) {
            return Err(format!("type {}", shown(&kind)));
        }
        if self.simulated == Some(true) {
            return Err("a simulated one".to_owned());
        }
        if !is(&scope, &["ip", "range"]) {
            return Err(format!("scope {}", shown(&scope)));
        }
        let source = source(&value).ok_or_else(|| format!("no address or range: {}", shown(&value)))?;
        if source.is_too_wide() {
            return Err(format!("a range that is too wide: {source}"));
        }
        let left: SignedDuration = duration.parse().map_err(|_| format!("no duration: {}", shown(&duration)))?;
        Ok(Decision { id: self.id, source, left: left.try_into().unwrap_or(Duration::ZERO) })
    }
}

/// Returns a source as other bouncers read it: bits beyond a range do not count.
fn source(text: &str) -> Option<Prefix> {
    match text.parse() {
        Ok(prefix) => Some(prefix),
        Err(PrefixError::HostBits(prefix, _)) => Some(prefix),
        Err(PrefixError::Mapped(address)) if !text.contains('/') => Some(Prefix::host(IpAddr::V4(address))),
        Err(_) => None,
    }
}

fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN).collect();
    if start.is_empty() { "(none)".to_owned() } else { escaped(&start) }
}

/// The object around both lists.
struct Whole {
    question: Question,
}

impl<'de> Visitor<'de> for Whole {
    type Value = Answer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the lists new and deleted")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Answer, A::Error> {
        let (mut answer, mut has) = (Answer::default(), [false; 2]);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "new" => {
                    has[0] = true;
                    map.next_value_seed(Each::of(|written: Written| {
                        answer.add(&written);
                        answer.new.len() <= MOST
                    }))?;
                }
                // Among all decisions, none of those that have ended matters.
                "deleted" if self.question == Question::Changes => {
                    has[1] = true;
                    map.next_value_seed(Each::of(|written: Written| {
                        answer.deleted.push(written.id);
                        answer.deleted.len() <= MOST
                    }))?;
                }
                "deleted" => {
                    has[1] = true;
                    map.next_value_seed(Each::of(|_: IgnoredAny| true))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        match has {
            [true, true] => Ok(answer),
            [false, _] => Err(A::Error::missing_field("new")),
            _ => Err(A::Error::missing_field("deleted")),
        }
    }
}

/// A list, or null for an empty one. The function gets each item, and says whether more are admitted.
struct Each<T, F>(F, PhantomData<T>);

impl<T, F: FnMut(T) -> bool> Each<T, F> {
    fn of(function: F) -> Self {
        Self(function, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> DeserializeSeed<'de> for Each<T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of decisions")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element()? {
            if !(self.0)(item) {
                return Err(A::Error::custom(format!("more than {MOST} decisions")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
