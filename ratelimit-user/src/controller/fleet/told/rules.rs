//! Follows the shared rules of the fleet: reads a version, validates it as a whole, and puts it in force or says why not.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use tokio::task::spawn_blocking;

use super::{
    once::Once,
    planned::{self, Refused},
    shown::Shown,
};
use crate::{
    config::{Planned, daemon::fleet::Fleet, shared},
    controller::notify::journal::Level,
    dataplane::Error,
    fleet::{
        engine::Engine,
        error,
        rules::{Store, Version},
        status::SharedRules,
    },
};

/// Failures in a row before the operator hears of them. A loss of the engine is told elsewhere.
const PATIENCE: u32 = 5;

/// The shared rules as this host knows them.
pub(super) struct Rules {
    pins: PathBuf,
    accepts: bool,
    pub(super) store: Store,
    /// The newest version that was read.
    pub(super) known: Option<Version>,
    /// The newest one that is valid.
    valid: Option<Numbered>,
    in_force: Numbered,
    /// What keeps the newest version from being in force.
    refused: Option<String>,
    has_lost: bool,
    /// What the maps were like when the rules were put there: see [`planned::put`].
    state: planned::State,
    engine: Once,
    maps: Once,
    shown: Shown,
}

/// Rules with the number of their version. None has no rules.
#[derive(Debug, Clone, Default)]
struct Numbered {
    version: Option<u64>,
    rules: Vec<Planned>,
}

impl Rules {
    pub(super) fn of(pins: &Path, fleet: &Fleet, shown: Shown) -> Self {
        Self {
            pins: pins.to_owned(),
            accepts: fleet.accepts.rules,
            store: Store::default(),
            known: None,
            valid: None,
            in_force: Numbered::default(),
            refused: None,
            has_lost: false,
            state: planned::State::default(),
            engine: Once::after(PATIENCE, pins),
            maps: Once::after(PATIENCE, pins),
            shown,
        }
    }

    /// Returns whether this host accepts shared rules.
    pub(super) fn accepts(&self) -> bool {
        self.accepts
    }

    /// Returns why the newest version is not in force.
    pub(super) fn refused(&self) -> Option<String> {
        self.refused.clone()
    }

    /// Reads the engine once, and puts in force what is new.
    pub(super) async fn step(&mut self, engine: Option<&Engine>) {
        if let (Some(engine), true) = (engine, self.accepts) {
            match self.read(engine).await {
                Ok(()) => self.engine.succeed("the shared rules can be read again"),
                Err(error) => self.engine.fail(|| format!("the shared rules cannot be read: {error}")),
            }
        }
        self.put().await;
        self.show();
    }

    /// Takes the version in the engine.
    pub(super) async fn read(&mut self, engine: &Engine) -> Result<(), error::Error> {
        let known = self.known.as_ref().map_or(0, |known| known.version);
        let is_known = self.known.as_ref().filter(|_| !self.has_lost).map(|known| known.version);
        let Some(read) = self.store.read(engine, is_known).await? else { return Ok(()) };
        // An engine without memory has no rules. Those that are known stay, until somebody writes new ones.
        self.has_lost = read.version < known;
        if self.has_lost {
            return Ok(());
        }
        match shared::read(&read.text) {
            Ok(rules) => self.valid = Some(Numbered { version: Some(read.version), rules }),
            Err(problem) => self.refuse(read.version, problem),
        }
        self.known = Some(read);
        Ok(())
    }

    fn refuse(&mut self, version: u64, problem: String) {
        if self.refused.as_ref() != Some(&problem) {
            let text = format!("version {version} of the shared rules is refused: {problem}");
            self.engine.tell(Level::Warning, &text);
            self.refused = Some(problem);
        }
    }

    /// Puts the newest valid version in force, again if the rules of this host have changed.
    async fn put(&mut self) {
        let newest = match &self.valid {
            _ if !self.accepts => Numbered { version: None, rules: Vec::new() },
            None => return self.check_standing().await,
            Some(newest) => newest.clone(),
        };
        match self.try_to_put(&newest).await {
            Ok(()) => {
                if self.in_force.version != newest.version
                    && let Some(version) = newest.version.filter(|version| *version != 0)
                {
                    let count = newest.rules.len();
                    let text = format!("version {version} of the shared rules is in force, {count} rules");
                    self.engine.tell(Level::Info, &text);
                }
                if self.known.as_ref().map(|known| known.version) == newest.version {
                    self.refused = None;
                }
                self.in_force = newest;
            }
            Err(refused) => {
                // A rule of this host can be stricter than before. What would admit more does not stay.
                let older = self.in_force.clone();
                let is_older = older.version != newest.version && older.version.is_some();
                let stays = match &refused {
                    _ if is_older => !matches!(self.try_to_put(&older).await, Err(Refused::More(_))),
                    Refused::More(_) => false,
                    Refused::Maps(_) => true,
                };
                if !stays {
                    let _ = self.try_to_put(&Numbered::default()).await;
                    self.in_force = Numbered::default();
                }
                match refused {
                    Refused::More(problem) => self.refuse(newest.version.unwrap_or_default(), problem),
                    Refused::Maps(error @ Error::ShutOut { .. }) => {
                        self.refuse(newest.version.unwrap_or_default(), error.to_string());
                    }
                    Refused::Maps(_) => {}
                }
            }
        }
    }

    /// Puts a version in force. Failures of the kernel and of sessions are told here.
    async fn try_to_put(&mut self, version: &Numbered) -> Result<(), Refused> {
        let now = SystemTime::now();
        let lasting = version.rules.iter().filter(|rule| rule.until.is_none_or(|until| now < until));
        let (pins, state, rules) = (self.pins.clone(), self.state.clone(), lasting.cloned().collect::<Vec<_>>());
        let outcome = spawn_blocking(move || planned::put(&pins, &rules, state)).await;
        match outcome.unwrap_or(Err(Refused::Maps(Error::NotAttached))) {
            Ok(state) => {
                self.state = state;
                self.maps.succeed("the shared rules are in force again");
                Ok(())
            }
            Err(refused) => {
                self.state = planned::State::default();
                match &refused {
                    // There is no instance. The next one needs the rules.
                    Refused::Maps(Error::NotAttached) => self.in_force = Numbered::default(),
                    Refused::Maps(error) => {
                        self.maps.fail(|| format!("the shared rules cannot be put in force: {error}"));
                    }
                    Refused::More(_) => {}
                }
                Err(refused)
            }
        }
    }

    /// Without a valid version, those of an earlier daemon stay, unless they admit more than this host does.
    async fn check_standing(&mut self) {
        let pins = self.pins.clone();
        match spawn_blocking(move || planned::check_standing(&pins)).await {
            Ok(Err(error)) if !matches!(error, Error::NotAttached) => {
                self.maps.fail(|| format!("the shared rules cannot be checked: {error}"));
            }
            _ => self.maps.succeed("the shared rules can be checked again"),
        }
    }

    fn show(&self) {
        let version = self.known.as_ref().map_or(0, |known| known.version);
        let lost = self.has_lost.then(|| {
            format!("the engine has lost version {version} of the shared rules, which stays in force: write them again")
        });
        let told = self.engine.problem().or(self.maps.problem());
        let problem = lost.or_else(|| told.map(ToOwned::to_owned));
        let rules = self.accepts.then(|| SharedRules {
            version,
            in_force: self.in_force.version,
            refused: self.refused.clone(),
            problem,
        });
        self.shown.change(|told| told.rules = rules);
    }
}
