//! Rules of callers that all servers of a fleet share: they are in the engine, and the file of a server is a copy.

use std::{path::Path, time::Duration};

use super::{
    entry::Entry,
    file::FileStore,
    member::Member,
    problem::{Problem, few_of},
    store::{ReadLog, Store, StoreError, Write},
};
use crate::{
    config::requests::stored::{self, Contents},
    controller::notify::journal::{self, Level},
    fleet::{
        engine::Engine,
        error::Error,
        kept::{
            followed::{Followed, News},
            rules::{self, REQUESTS, Version},
        },
    },
    text::excerpt::message,
};
use jiff::Timestamp;

/// Time for a call. The text can be large, and no request waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A version that no changes can reach.
const MOST: u64 = 1 << 52;

/// The rules of a fleet, as one server knows them.
pub(super) struct Shared {
    member: Member,
    copy: FileStore,
    /// What this server has in force.
    known: Contents,
    /// The same as the engine has it, once this server has joined its fleet.
    followed: Followed,
    /// What the engine has, while it is not in force here.
    next: Option<(Version, Contents)>,
    /// What is wrong with the rules in the engine, with the engine, and with the copy.
    wrong: Problem,
    back: Problem,
    unwritten: Problem,
}

impl Shared {
    /// Takes a file, which need not exist, for this server. Returns its rules too.
    pub(super) fn open(path: &Path, member: Member) -> Result<(Self, Contents), StoreError> {
        let copy = FileStore::open(path)?;
        let known = copy.read()?;
        let followed = Followed::from(rules::Store::of(&REQUESTS), version(&known));
        let [wrong, back, unwritten] = [Problem::default(), Problem::default(), Problem::default()];
        let shared = Self { member, copy, known: known.clone(), followed, next: None, wrong, back, unwritten };
        shared.show();
        Ok((shared, known))
    }

    fn engine(&self) -> Result<Engine, StoreError> {
        let engine = self.member.link.borrow().clone();
        let gone = || StoreError::Unreachable("nothing is changed: the engine of the fleet does not answer".to_owned());
        Ok(engine.ok_or_else(gone)?.within(PATIENCE))
    }

    /// Reads the engine. Returns what it has, unless that is in force here.
    fn read(&mut self, engine: &Engine) -> Result<Option<(Version, Contents)>, StoreError> {
        let before = self.followed.known().cloned();
        let read = self.member.runtime.block_on(self.followed.read(engine)).map_err(|error| self.unread(&error))?;
        let is_empty = self.followed.seen().is_none_or(|seen| seen.version == 0);
        let found = match read {
            _ if is_empty => {
                self.next = None;
                return Ok(None);
            }
            News::Same => return Ok(self.next.clone()),
            News::Lost(version) => version,
            News::Next { .. } => self.followed.known().cloned().unwrap_or_default(),
        };
        // It is not known before it is in force.
        self.followed.take(before);
        let contents = match stored::parse(&found.text) {
            Ok(contents) if contents.fleet.is_some() && contents.version == found.version && found.version < MOST => {
                contents
            }
            Ok(_) => return Err(self.nonsense(found, "they have no name of a fleet, or no version that is possible")),
            Err(problem) => return Err(self.nonsense(found, &problem.to_string())),
        };
        if contents.fleet == self.known.fleet && contents.version < self.known.version {
            let (old, new) = (self.known.version, contents.version);
            self.back.is_there(|| {
                format!("the engine has version {new} of the rules of callers: version {old} stays in force until the next change")
            });
            self.next = None;
            return Ok(None);
        }
        self.back.is_gone("the engine has a new version of the rules of callers");
        self.next = (contents != self.known).then_some((found, contents));
        if self.next.is_none() {
            self.wrong.is_gone("the rules of callers in the engine are in force");
        }
        self.show();
        Ok(self.next.clone())
    }

    fn unread(&mut self, error: &Error) -> StoreError {
        if !matches!(error, Error::Silent(_) | Error::Lost(_)) {
            self.wrong.is_there(|| format!("the rules of callers cannot be read: {error}: those before stay in force"));
        }
        StoreError::Unreachable(format!("nothing is changed: the engine gives no rules: {error}"))
    }

    /// Keeps what cannot be read, so that no change replaces it.
    fn nonsense(&mut self, found: Version, problem: &str) -> StoreError {
        let problem = format!("the rules of callers in the engine make no sense: {}", message(problem));
        self.wrong.is_there(|| format!("{problem}: those before stay in force"));
        let contents = Contents { version: found.version, ..Contents::default() };
        self.next = Some((found, contents));
        self.show();
        StoreError::Unusable(problem)
    }

    /// Gives an engine without rules those of this server.
    fn fill(&mut self, engine: &Engine) {
        if self.known.fleet.is_none() && self.known.rules.is_empty() {
            return;
        }
        let action = if self.known.fleet.is_some() { "restore" } else { "join" };
        let fleet = Some(self.known.fleet.clone().unwrap_or_else(random));
        let next = Contents { version: self.known.version.max(1), fleet, ..self.known.clone() };
        let entry = Entry {
            at: Timestamp::now(),
            server: None,
            token: "",
            address: None,
            action,
            name: "*",
            old_version: None,
            version: next.version,
            old: None,
            new: None,
        };
        match self.put(engine, next, &entry) {
            Ok(()) => {
                let count = self.known.rules.len();
                for problem in [&mut self.wrong, &mut self.back] {
                    problem.is_gone("the rules of callers are in the engine again");
                }
                tell(
                    Level::Info,
                    &format!("the engine had no rules of callers: it has those of this server, {count} in all"),
                );
            }
            // Another server was first.
            Err(StoreError::Changed) => {}
            Err(error) => {
                let problem = error.to_string();
                self.wrong.is_there(|| format!("the rules of callers cannot be written to the engine: {problem}"));
            }
        }
    }

    /// Writes all rules in place of those that the engine had last.
    fn put(&mut self, engine: &Engine, next: Contents, entry: &Entry<'_>) -> Result<(), StoreError> {
        let text = stored::write(&next);
        if text.len() > REQUESTS.text {
            let (length, most) = (text.len(), REQUESTS.text);
            let problem = format!("the rules of callers would have {length} bytes, at most {most} are possible");
            return Err(StoreError::Unusable(problem));
        }
        let entry = Entry { server: Some(&self.member.name), ..*entry };
        let logged = serde_json::to_string(&entry).unwrap_or_default();
        let mark = self.followed.seen().cloned().unwrap_or_default();
        let version = Version { version: next.version, text };
        let author = [entry.token, entry.action];
        let call = self.followed.store().change(engine, &mark, &version, author, &logged);
        match self.member.runtime.block_on(call) {
            Ok(true) => {
                self.take(version, next);
                Ok(())
            }
            Ok(false) => Err(StoreError::Changed),
            Err(error) if error.leaves_open() => Err(StoreError::Unreachable(format!(
                "the engine has not confirmed the change: {error}: read the rule again"
            ))),
            Err(error) => Err(StoreError::Unreachable(format!("nothing is changed: the engine refuses: {error}"))),
        }
    }

    /// Knows rules from now on, and keeps them for the next start.
    fn take(&mut self, version: Version, contents: Contents) {
        self.followed.take(Some(version));
        (self.known, self.next) = (contents, None);
        match self.copy.replace(&self.known) {
            Ok(()) => self.unwritten.is_gone("the copy of the rules of callers can be written again"),
            Err(error) => {
                let path = self.copy.path().display();
                self.unwritten
                    .is_there(|| format!("the copy of the rules of callers cannot be written: {path}: {error}"));
            }
        }
        self.show();
    }

    /// Tells the operator which rules of this server those of a fleet replace, and keeps them in another file.
    fn set_aside(&self, contents: &Contents) {
        let is_gone = |name: &&String| {
            let keys = |contents: &Contents| contents.rules.get(*name).map(|rule| rule.keys.clone());
            keys(&self.known) != keys(contents)
        };
        let gone: Vec<_> = self.known.rules.keys().filter(is_gone).cloned().collect();
        if gone.is_empty() {
            return;
        }
        let place = match self.copy.set_aside(&self.known) {
            Ok(path) => format!("{} has the rules before", path.display()),
            Err(error) => format!("the rules before cannot be kept: {error}"),
        };
        let names = few_of(&gone);
        tell(Level::Warning, &format!("the rules of callers in the engine replace {names} of this server: {place}"));
    }

    fn show(&self) {
        self.member.shown.show_rules(self.known.version, self.next.is_some());
    }
}

impl Store for Shared {
    fn news(&mut self) -> Result<Option<Contents>, StoreError> {
        let engine = self.engine()?;
        let found = self.read(&engine)?;
        if self.followed.seen().is_some_and(|seen| seen.version == 0) {
            self.fill(&engine);
        }
        match found {
            // It was told already that they cannot be read.
            Some((_, contents)) if contents.fleet.is_none() => {
                Err(StoreError::Unusable("the rules of callers in the engine make no sense".to_owned()))
            }
            found => Ok(found.map(|(_, contents)| contents)),
        }
    }

    fn settle(&mut self, outcome: Result<(), String>) {
        match (outcome, self.next.take()) {
            (Ok(()), Some((version, contents))) => {
                if self.known.fleet != contents.fleet {
                    self.set_aside(&contents);
                }
                self.wrong.is_gone("the rules of callers in the engine are in force");
                self.take(version, contents);
            }
            (Err(problem), next) => {
                self.next = next;
                let problem = message(&problem);
                self.wrong.is_there(|| {
                    format!("the rules of callers in the engine are refused: {problem}: those before stay in force")
                });
                self.show();
            }
            (Ok(()), None) => {}
        }
    }

    fn known(&self) -> Result<Contents, StoreError> {
        Ok(self.known.clone())
    }

    fn write(&mut self, write: Write<'_>, entry: &Entry<'_>) -> Result<(), StoreError> {
        let engine = self.engine()?;
        let mut next = write.applied_to(&self.known)?;
        next.fleet.get_or_insert_with(random);
        self.put(&engine, next, entry)
    }

    fn log(&self) -> Result<ReadLog, StoreError> {
        let unread = |error: &str| StoreError::Unreachable(format!("the log of changes cannot be read: {error}"));
        let engine = self.engine().map_err(|_| unread("the engine of the fleet does not answer"))?;
        let (store, runtime) = (self.followed.store().clone(), self.member.runtime.clone());
        Ok(Box::new(move |most| {
            let texts = runtime.block_on(store.texts(&engine, most)).map_err(|error| unread(&error.to_string()))?;
            Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
        }))
    }
}

/// Returns the version that this server knows of its fleet. None if the rules are its own.
fn version(contents: &Contents) -> Option<Version> {
    contents.fleet.as_ref().map(|_| Version { version: contents.version, text: stored::write(contents) })
}

/// Returns a name for the rules of a fleet that no other fleet has.
fn random() -> String {
    format!("{:032x}", fastrand::u128(..))
}

fn tell(level: Level, text: &str) {
    journal::say(level, &format!("fleet: {text}"));
}
