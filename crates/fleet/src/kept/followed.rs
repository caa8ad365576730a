//! The rules in the engine as one host follows them.

use ratelimit_protocol::fleet::Version;

use super::rules::{Mark, Store};
use crate::{engine::Engine, error::Error};

/// The rules in the engine as one host follows them. A version that goes back changes nothing.
#[derive(Debug)]
pub struct Followed {
    store: Store,
    /// What the engine had last.
    seen: Option<Mark>,
    known: Option<Version>,
}

/// What the engine has.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// The same as at the last call.
    Same,
    /// No rules, or an older version than the one that is known, which stays.
    Lost(Version),
    /// A version that is known from now on.
    Next {
        /// Whether a version with this number had another text.
        is_rewritten: bool,
    },
}

impl Followed {
    /// Begins with a version that is known from before.
    #[must_use]
    pub fn from(store: Store, known: Option<Version>) -> Self {
        Self { store, seen: None, known }
    }

    /// Returns where the rules are kept.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns what the engine had last. None before the first answer.
    #[must_use]
    pub fn seen(&self) -> Option<&Mark> {
        self.seen.as_ref()
    }

    /// Returns the newest version that is known.
    #[must_use]
    pub fn known(&self) -> Option<&Version> {
        self.known.as_ref()
    }

    /// Reads the engine.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL. Nothing has changed then.
    pub async fn read(&mut self, engine: &Engine) -> Result<News, Error> {
        let Some((mark, read)) = self.store.read(engine, self.seen.as_ref()).await? else { return Ok(News::Same) };
        self.seen = Some(mark);
        // An engine without memory has no rules. Those that are known stay, until somebody writes new ones.
        if read.version == 0 || self.known.as_ref().is_some_and(|known| read.version < known.version) {
            return Ok(News::Lost(read));
        }
        let is_rewritten =
            self.known.as_ref().is_some_and(|known| known.version == read.version && known.text != read.text);
        self.known = Some(read);
        Ok(News::Next { is_rewritten })
    }

    /// Takes another version as the one that is known, also an older one.
    pub fn take(&mut self, version: Option<Version>) {
        self.known = version;
    }

    /// Returns the mark of the version in the engine, and the newest version: one that the engine has lost too.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn present(&self, engine: &Engine) -> Result<(Mark, Version), Error> {
        let (mark, read) = self.store.read(engine, None).await?.unwrap_or_default();
        let known = self.known.clone().filter(|known| known.version > read.version);
        Ok((mark, known.unwrap_or(read)))
    }
}
