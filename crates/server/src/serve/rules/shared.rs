//! What a server knows of the rules that all servers of a fleet share. They are in the engine, and its file is a copy.

use std::{
    collections::BTreeSet,
    mem,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use ratelimit_base::{
    notify::journal::{self, Level},
    text::excerpt::message,
};
use ratelimit_fleet::{
    engine::Engine,
    error::Error,
    kept::{
        followed::Followed,
        rules::{self, REQUESTS},
    },
};
use ratelimit_protocol::fleet::Version;
use tokio::runtime::Handle;

use super::{entry::Entry, file::FileStore, problem::Problem, store::StoreError, teams::Teams};
use crate::{
    config::stored::{self, Contents},
    serve::in_fleet::{InFleet, Link, SharedRules},
};

/// Time for a call. The text can be large, and no request waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Calls without an answer after which the operator is told.
const FAILURES: u32 = 5;
/// What callers hear, who may not know the rules of others.
pub(super) const NONSENSE: &str =
    "the rules of callers in the engine make no sense: the log of the server has the reason";

/// This server in its fleet.
#[derive(Clone)]
pub(in crate::serve) struct Member {
    /// What others call this server.
    pub(in crate::serve) name: String,
    pub(in crate::serve) link: Link,
    pub(in crate::serve) runtime: Handle,
    pub(in crate::serve) shown: Arc<InFleet>,
}

/// The rules of a fleet, as one server knows them.
pub(super) struct Shared {
    pub(super) member: Member,
    pub(super) copy: FileStore,
    /// What this server has in force.
    pub(super) known: Contents,
    /// The same as the engine has it, once this server has joined its fleet.
    pub(super) followed: Followed,
    /// What the engine has, while it is not in force here.
    pub(super) next: Option<(Version, Contents)>,
    /// Since when the engine has no rules, as far as this server knows.
    pub(super) empty: Option<Instant>,
    /// Rules that do not fit this server.
    pub(super) left_out: BTreeSet<String>,
    /// Calls without an answer since the last one with an answer.
    pub(super) failures: u32,
    /// What is wrong with reading the engine, with its rules, with writing them again, and with the copy.
    pub(super) unread: Problem,
    pub(super) refused: Problem,
    pub(super) unrestored: Problem,
    unwritten: Problem,
    /// Whether the copy has something that this server could not read.
    is_unread: bool,
}

/// A version that no changes can reach.
const MOST: u64 = 1 << 52;
/// A version that no changes reach unless an engine lies. From then on, only small steps are believed.
pub(super) const HIGH: u64 = 1 << 51;
/// The largest step above that version.
const STEP: u64 = 1 << 20;

impl Shared {
    /// Takes a file, which need not exist, for this server. Returns its rules too, or why they cannot be read. A damaged
    /// file gets another name. Any other one that cannot be read stays until the engine has answered: it can be good.
    pub(super) fn open(path: &Path, member: Member) -> Result<(Self, Result<Contents, StoreError>), StoreError> {
        let copy = FileStore::open(path)?;
        let contents = match copy.read() {
            Err(StoreError::Damaged(problem)) => {
                let aside = copy.set_aside_as_damaged();
                let until = "no rule of callers is in force until the engine answers";
                tell(Level::Error, &format!("{problem}: {aside}: {until}"));
                Ok(Contents::default())
            }
            contents => contents,
        };
        let (known, is_unread) = (contents.as_ref().cloned().unwrap_or_default(), contents.is_err());
        let followed = Followed::from(rules::Store::of(&REQUESTS), version(&known));
        let shared = Self {
            member,
            copy,
            known,
            followed,
            next: None,
            empty: None,
            left_out: BTreeSet::new(),
            failures: 0,
            unread: Problem::default(),
            refused: Problem::default(),
            unrestored: Problem::default(),
            unwritten: Problem::default(),
            is_unread,
        };
        shared.show();
        Ok((shared, contents))
    }

    pub(super) fn engine(&self) -> Result<Engine, StoreError> {
        let engine = self.member.link.borrow().clone();
        let gone = || StoreError::Unreachable("nothing is changed: the engine of the fleet does not answer".to_owned());
        Ok(engine.ok_or_else(gone)?.within(PATIENCE))
    }

    pub(super) fn unread(&mut self, error: &Error) -> StoreError {
        self.failures = self.failures.saturating_add(1);
        // The operator hears of an engine that is away from others.
        if !matches!(error, Error::Silent(_) | Error::Lost(_)) || self.failures >= FAILURES {
            self.unread
                .is_there(|| format!("the rules of callers cannot be read: {error}: those before stay in force"));
        }
        StoreError::Unreachable(format!("nothing is changed: the engine gives no rules: {error}"))
    }

    /// Keeps what cannot be read, so that no change replaces it.
    pub(super) fn nonsense(&mut self, found: Version, problem: &str) -> StoreError {
        let problem = format!("the rules of callers in the engine make no sense: {}", message(problem));
        self.refused.is_there(|| format!("{problem}: those before stay in force"));
        let contents = Contents { version: found.version, ..Contents::default() };
        self.next = Some((found, contents));
        self.show();
        StoreError::Unusable(NONSENSE.to_owned())
    }

    /// Returns whether changes can lead to these rules.
    pub(super) fn is_possible(&self, contents: &Contents) -> bool {
        let is_near = contents.fleet == self.known.fleet && contents.version <= self.known.version.saturating_add(STEP);
        contents.fleet.is_some() && contents.version < if is_near { MOST } else { HIGH }
    }

    /// Writes all rules in place of those that the engine had last.
    pub(super) fn put(
        &mut self,
        engine: &Engine,
        next: Contents,
        entry: &Entry<'_>,
        teams: &Teams,
    ) -> Result<(), StoreError> {
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
        let (author, part) = ([entry.token, entry.action], teams.part(entry.name));
        let call = self.followed.store().change(engine, &mark, &version, author, (&logged, &part));
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
    pub(super) fn take(&mut self, version: Version, contents: Contents) {
        self.followed.take(Some(version));
        (self.known, self.next) = (contents, None);
        if mem::take(&mut self.is_unread) {
            let (path, aside) = (self.copy.path().display(), self.copy.set_aside_as_damaged());
            tell(Level::Warning, &format!("{path} could not be read at the start: {aside}"));
        }
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

    pub(super) fn show(&self) {
        // Rules that are refused as a whole count as one.
        let refused = self.left_out.len() + usize::from(self.next.is_some());
        let shown =
            SharedRules { version: self.known.version, refused: refused as u64, is_uncopied: self.unwritten.lasts() };
        self.member.shown.show_rules(shown);
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
