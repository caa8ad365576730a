//! Follows the shared rules of the fleet: reads a version, validates it as a whole, and puts it in force or says why not.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use tokio::task::spawn_blocking;

use super::{once::Once, planned, shown::Shown};
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
    /// The newest one that is valid, and its number.
    valid: Option<(u64, Vec<Planned>)>,
    /// The number of the version in force.
    in_force: Option<u64>,
    /// What keeps the newest version from being in force.
    refused: Option<String>,
    has_lost: bool,
    /// What the maps were like when the rules were put there: see [`planned::put`].
    state: planned::State,
    engine: Once,
    shown: Shown,
}

impl Rules {
    pub(super) fn of(pins: &Path, fleet: &Fleet, shown: Shown) -> Self {
        Self {
            pins: pins.to_owned(),
            accepts: fleet.accepts.rules,
            store: Store::default(),
            known: None,
            valid: None,
            in_force: None,
            refused: None,
            has_lost: false,
            state: planned::State::default(),
            engine: Once::after(PATIENCE, pins),
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
            Ok(rules) => self.valid = Some((read.version, rules)),
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
        let (version, rules) = match &self.valid {
            _ if !self.accepts => (None, Vec::new()),
            // Rules of an earlier daemon stay until the engine has answered.
            None => return,
            Some((version, rules)) => (Some(*version), rules.clone()),
        };
        let now = SystemTime::now();
        let rules: Vec<_> = rules.into_iter().filter(|rule| rule.until.is_none_or(|until| now < until)).collect();
        let (pins, state, count) = (self.pins.clone(), self.state.clone(), rules.len());
        let outcome = spawn_blocking(move || planned::put(&pins, &rules, state)).await;
        match outcome.unwrap_or(Err(planned::Refused::Maps(Error::NotAttached))) {
            Ok(state) => {
                self.state = state;
                if self.in_force != version {
                    self.in_force = version;
                    if let Some(version) = version {
                        let text = format!("version {version} of the shared rules is in force, {count} rules");
                        self.engine.tell(Level::Info, &text);
                    }
                }
                if self.known.as_ref().map(|known| known.version) == version {
                    self.refused = None;
                }
            }
            // There is no instance. The next one needs the rules.
            Err(planned::Refused::Maps(Error::NotAttached)) => {
                (self.state, self.in_force) = (planned::State::default(), None);
            }
            Err(planned::Refused::Maps(error)) => self.refuse(version.unwrap_or_default(), error.to_string()),
            Err(planned::Refused::More(problem)) => {
                // A rule of this host is stricter now. What would admit more does not stay.
                if self.in_force == version {
                    let (pins, nothing) = (self.pins.clone(), planned::State::default());
                    let withdrawn = spawn_blocking(move || planned::put(&pins, &[], nothing)).await;
                    if withdrawn.is_ok_and(|outcome| outcome.is_ok()) {
                        self.in_force = None;
                    }
                }
                self.refuse(version.unwrap_or_default(), problem);
            }
        }
    }

    fn show(&self) {
        let version = self.known.as_ref().map_or(0, |known| known.version);
        let lost = self.has_lost.then(|| {
            format!("the engine has lost version {version} of the shared rules, which stays in force: write them again")
        });
        let problem = lost.or_else(|| self.engine.problem().map(ToOwned::to_owned));
        let rules = self.accepts.then(|| SharedRules {
            version,
            in_force: self.in_force,
            refused: self.refused.clone(),
            problem,
        });
        self.shown.change(|told| told.rules = rules);
    }
}
