//! Rules of callers that all servers of a fleet share: they are in the engine, and the file of a server is a copy.

use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    entry::Entry,
    file::FileStore,
    in_force::InForce,
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

/// Time for a call. The text can be large, and no request waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Calls without an answer after which the operator is told.
const FAILURES: u32 = 5;
/// What callers hear, who may not know the rules of others.
const NONSENSE: &str = "the rules of callers in the engine make no sense: the log of the server has the reason";

/// The rules of a fleet, as one server knows them.
pub(super) struct Shared {
    pub(super) member: Member,
    pub(super) copy: FileStore,
    /// What this server has in force.
    pub(super) known: Contents,
    /// The same as the engine has it, once this server has joined its fleet.
    pub(super) followed: Followed,
    /// What the engine has, while it is not in force here.
    next: Option<(Version, Contents)>,
    /// Since when the engine has no rules, as far as this server knows.
    pub(super) empty: Option<Instant>,
    /// Rules that do not fit this server.
    left_out: BTreeSet<String>,
    /// Calls without an answer since the last one with an answer.
    failures: u32,
    /// What is wrong with reading the engine, with its rules, with writing them again, and with the copy.
    unread: Problem,
    refused: Problem,
    pub(super) unrestored: Problem,
    unwritten: Problem,
}

impl Shared {
    /// Takes a file, which need not exist, for this server. Returns its rules too.
    pub(super) fn open(path: &Path, member: Member) -> Result<(Self, Contents), StoreError> {
        let copy = FileStore::open(path)?;
        let known = copy.read()?;
        let followed = Followed::from(rules::Store::of(&REQUESTS), version(&known));
        let shared = Self {
            member,
            copy,
            known: known.clone(),
            followed,
            next: None,
            empty: None,
            left_out: BTreeSet::new(),
            failures: 0,
            unread: Problem::default(),
            refused: Problem::default(),
            unrestored: Problem::default(),
            unwritten: Problem::default(),
        };
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
        self.failures = 0;
        self.unread.is_gone("the rules of callers can be read again");
        self.member.shown.read_rules();
        let is_empty = self.followed.seen().is_none_or(|seen| seen.version == 0);
        let found = match read {
            _ if is_empty => {
                self.next = None;
                self.refused.is_gone("the engine has no rules of callers any more");
                return Ok(None);
            }
            News::Same => return Ok(self.next.clone()),
            News::Lost(version) => version,
            News::Next { .. } => self.followed.known().cloned().unwrap_or_default(),
        };
        // It is not known before it is in force.
        self.followed.take(before);
        self.empty = None;
        let contents = match stored::parse(&found.text) {
            Ok(contents) if contents.version == found.version && self.is_possible(&contents) => contents,
            Ok(_) => return Err(self.nonsense(found, "they have no name of a fleet, or no version that is possible")),
            Err(problem) => return Err(self.nonsense(found, &problem.to_string())),
        };
        if self.is_behind(&contents) {
            self.next = None;
            self.refused.is_gone("the rules of callers that the engine has now make sense");
            self.write_again(engine, &contents)?;
            return Ok(None);
        }
        self.next = (contents != self.known).then_some((found, contents));
        if self.next.is_none() {
            self.refused.is_gone("the rules of callers in the engine are in force");
        }
        self.show();
        Ok(self.next.clone())
    }

    fn unread(&mut self, error: &Error) -> StoreError {
        self.failures = self.failures.saturating_add(1);
        // The operator hears of an engine that is away from others.
        if !matches!(error, Error::Silent(_) | Error::Lost(_)) || self.failures >= FAILURES {
            self.unread
                .is_there(|| format!("the rules of callers cannot be read: {error}: those before stay in force"));
        }
        StoreError::Unreachable(format!("nothing is changed: the engine gives no rules: {error}"))
    }

    /// Keeps what cannot be read, so that no change replaces it.
    fn nonsense(&mut self, found: Version, problem: &str) -> StoreError {
        let problem = format!("the rules of callers in the engine make no sense: {}", message(problem));
        self.refused.is_there(|| format!("{problem}: those before stay in force"));
        let contents = Contents { version: found.version, ..Contents::default() };
        self.next = Some((found, contents));
        self.show();
        StoreError::Unusable(NONSENSE.to_owned())
    }

    /// Writes all rules in place of those that the engine had last.
    pub(super) fn put(&mut self, engine: &Engine, next: Contents, entry: &Entry<'_>) -> Result<(), StoreError> {
        if !self.is_possible(&next) {
            let advice = "delete {rl:m}:checks in the engine: servers write their rules again, with new versions";
            return Err(StoreError::Unusable(format!("version {} is the last one: {advice}", self.known.version)));
        }
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

    fn show(&self) {
        // Rules that are refused as a whole count as one.
        let refused = self.left_out.len() + usize::from(self.next.is_some());
        self.member.shown.show_rules(self.known.version, refused as u64);
    }
}

impl Store for Shared {
    fn news(&mut self) -> Result<Option<Contents>, StoreError> {
        let engine = self.engine()?;
        let fleet = self.known.fleet.clone();
        let found = self.read(&engine)?;
        if self.followed.seen().is_some_and(|seen| seen.version == 0) {
            self.fill(&engine)?;
        }
        match found {
            // The rules of a new fleet have other versions.
            None if self.known.fleet != fleet => Ok(Some(self.known.clone())),
            // It was told already that they cannot be read.
            Some((_, contents)) if contents.fleet.is_none() => Err(StoreError::Unusable(NONSENSE.to_owned())),
            found => Ok(found.map(|(_, contents)| contents)),
        }
    }

    fn settle(&mut self, outcome: Result<(), String>) {
        match (outcome, self.next.take()) {
            (Ok(()), Some((version, contents))) => {
                self.keep_replaced(&contents);
                self.refused.is_gone("the rules of callers in the engine are in force");
                self.take(version, contents);
            }
            (Err(problem), next) => {
                self.next = next;
                let problem = message(&problem);
                self.refused.is_there(|| {
                    format!("the rules of callers in the engine are refused: {problem}: those before stay in force")
                });
                self.show();
            }
            (Ok(()), None) => {}
        }
    }

    fn leave_out(&mut self, in_force: &InForce) {
        let is_new = |(name, _): &(&str, &str)| !self.left_out.contains(*name);
        let (names, problems): (Vec<_>, Vec<_>) =
            in_force.left_out().filter(is_new).map(|(name, problem)| (name.to_owned(), problem)).unzip();
        if let Some(problem) = problems.first() {
            let text =
                format!("rules of callers do not fit this server, and are left out: {}: {problem}", few_of(&names));
            tell(Level::Warning, &message(&text));
        }
        self.left_out = in_force.left_out().map(|(name, _)| name.to_owned()).collect();
        self.show();
    }

    fn known(&self) -> Result<Contents, StoreError> {
        Ok(self.known.clone())
    }

    fn write(&mut self, write: Write<'_>, entry: &Entry<'_>) -> Result<(), StoreError> {
        let engine = self.engine()?;
        self.may_begin()?;
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
pub(super) fn random() -> String {
    format!("{:032x}", fastrand::u128(..))
}

pub(super) fn tell(level: Level, text: &str) {
    journal::say(level, &format!("fleet: {text}"));
}
