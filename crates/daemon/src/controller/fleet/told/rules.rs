//! Follows the shared rules of the fleet: reads a version, validates it as a whole, and puts it in force or says why not.

use std::path::Path;

use ratelimit_base::notify::journal::Level;
use ratelimit_dataplane::Error;
use ratelimit_fleet::{
    engine::Engine,
    error,
    kept::{
        followed::{Followed, News},
        rules::Store,
    },
    table::Fleet,
};
use ratelimit_protocol::fleet::{SharedRules, Version};
use tokio::time::Instant;

use super::{
    again::Again,
    maps::Maps,
    numbered::Numbered,
    once::Once,
    planned::{self, Failed, Refused, State},
    shown::Shown,
};
use crate::config::shared;

/// Failures in a row before the operator hears of them. A loss of the engine is told elsewhere.
const PATIENCE: u32 = 5;

/// What an operator must know of an engine that has no rules, although this host has some.
const KEPT: &str = "the engine has no shared rules, and this host keeps those of before, whose version is not known: \
                    `ratelimit list list` names their lists: set the rules again";

/// The shared rules as this host knows them.
pub(super) struct Rules {
    maps: Maps,
    accepts: bool,
    pub(super) followed: Followed,
    /// The newest one that is valid.
    valid: Option<Numbered>,
    in_force: Numbered,
    /// What keeps the newest version from being in force.
    refused: Option<String>,
    has_lost: bool,
    /// Whether rules of an earlier daemon stay, because the engine has none.
    keeps: bool,
    /// The state in which the rules were put in force.
    state: Option<State>,
    /// States in which they could not be.
    again: Again<State>,
    engine: Once,
    puts: Once,
    shown: Shown,
}

impl Rules {
    pub(super) fn of(maps: &Maps, fleet: &Fleet, shown: Shown) -> Self {
        Self {
            maps: maps.clone(),
            accepts: fleet.accepts.rules,
            followed: Followed::from(Store::default(), None),
            valid: None,
            in_force: Numbered::default(),
            refused: None,
            has_lost: false,
            keeps: false,
            state: None,
            again: Again::default(),
            engine: Once::after(PATIENCE, maps.pins()),
            puts: Once::after(PATIENCE, maps.pins()),
            shown,
        }
    }

    /// Returns whether this host accepts shared rules.
    pub(super) fn accepts(&self) -> bool {
        self.accepts
    }

    /// Returns whether rules of an earlier daemon stay, because the engine has none.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Returns why the newest version is not in force.
    pub(super) fn refused(&self) -> Option<String> {
        self.refused.clone()
    }

    /// Checks that this host can put a version in force that an operator writes here.
    ///
    /// # Errors
    ///
    /// Fails with the reason in words.
    pub(super) async fn check(&self, version: &Version) -> Result<(), String> {
        let rules = if self.accepts { shared::read(&version.text)? } else { Vec::new() };
        match self.maps.with(move |pins| planned::check_all(pins, &rules)).await {
            Some(Err(Refused::More(problem))) => Err(format!(
                "nothing was changed: this host refuses {problem}: choose a stricter limit, or delete it with \
                 `ratelimit fleet rules del`"
            )),
            // Whether the maps can be changed shows itself later.
            _ => Ok(()),
        }
    }

    /// Reads the engine for the first time, unless that was done.
    pub(super) async fn begin(&mut self, engine: &Engine) {
        if self.followed.seen().is_none() {
            self.step(Some(engine)).await;
        }
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
        let is_rewritten = match self.followed.read(engine).await? {
            News::Same => return Ok(()),
            News::Lost(_) => {
                self.has_lost = self.followed.known().is_some();
                return Ok(());
            }
            News::Next { is_rewritten } => is_rewritten,
        };
        (self.has_lost, self.keeps) = (false, false);
        let Some(read) = self.followed.known().cloned() else { return Ok(()) };
        if is_rewritten {
            let known = read.version;
            let text =
                format!("version {known} of the shared rules has another text now: the engine has lost a change");
            self.engine.tell(Level::Warning, &text);
        }
        match shared::read(&read.text) {
            Ok(rules) => self.valid = Some(Numbered { version: Some(read.version), rules }),
            Err(problem) => {
                // What is in force is another text than the one with this number.
                if let Some(valid) = self.valid.as_mut().filter(|valid| valid.version == Some(read.version)) {
                    valid.version = None;
                }
                self.refuse(read.version, problem);
            }
        }
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
        let resting = self.again.resting(Instant::now()).cloned();
        match self.try_to_put(&newest, resting).await {
            Ok(()) => {
                self.again.succeed();
                if self.in_force.version != newest.version
                    && let Some(version) = newest.version.filter(|version| *version != 0)
                {
                    let count = newest.rules.len();
                    let text = format!("version {version} of the shared rules is in force, {count} rules");
                    self.engine.tell(Level::Info, &text);
                }
                if self.followed.known().map(|known| known.version) == newest.version {
                    self.refused = None;
                }
                self.in_force = newest;
            }
            Err(Failed { why: Refused::Early, .. }) => {}
            Err(Failed { tried, why: refused }) => {
                // A rule of this host can be stricter than before. What would admit more does not stay.
                let older = self.in_force.clone();
                let is_older = older.version != newest.version && older.version.is_some();
                let stays = match &refused {
                    _ if is_older => {
                        let outcome = self.try_to_put(&older, None).await;
                        !matches!(outcome, Err(Failed { why: Refused::More(_), .. }))
                    }
                    Refused::More(_) => false,
                    Refused::Maps(_) | Refused::Early => true,
                };
                if !stays {
                    let _ = self.try_to_put(&Numbered::default(), None).await;
                    self.in_force = Numbered::default();
                }
                if let Some(tried) = tried {
                    // What was tried, also with older rules, has changed the generation.
                    let state = self.read_state(&newest).await.unwrap_or_else(|| tried.clone());
                    self.again.fail(&tried, state, Instant::now());
                }
                match refused {
                    Refused::More(problem) => self.refuse(newest.version.unwrap_or_default(), problem),
                    Refused::Maps(error @ Error::ShutOut { .. }) => {
                        self.refuse(newest.version.unwrap_or_default(), error.to_string());
                    }
                    Refused::Maps(_) | Refused::Early => {}
                }
            }
        }
    }

    /// Puts a version in force, unless it is in force already, or the state is one that rests. Failures of the kernel and of
    /// sessions are told here.
    async fn try_to_put(&mut self, version: &Numbered, resting: Option<State>) -> Result<(), Failed> {
        let (rules, done) = (version.lasting(), self.state.clone());
        let put = move |pins: &Path| planned::put_unless(pins, &rules, done.as_ref(), resting.as_ref());
        let outcome = self.maps.with(put).await.unwrap_or_else(|| Err(Box::new(self.maps.gone().into())));
        match outcome.map_err(|failed| *failed) {
            Ok(state) => {
                self.state = Some(state);
                self.puts.succeed("the shared rules are in force again");
                Ok(())
            }
            Err(failed) => {
                if matches!(failed.why, Refused::Early) {
                    return Err(failed);
                }
                self.state = None;
                match &failed.why {
                    // There is no instance. The next one needs the rules.
                    Refused::Maps(Error::NotAttached(_)) => self.in_force = Numbered::default(),
                    Refused::Maps(error) => {
                        self.puts.fail(|| format!("the shared rules cannot be put in force: {error}"));
                    }
                    Refused::More(_) | Refused::Early => {}
                }
                Err(failed)
            }
        }
    }

    /// Returns the state in which these rules would be put in force. None without an instance.
    async fn read_state(&self, version: &Numbered) -> Option<State> {
        let rules = version.lasting();
        self.maps.with(move |pins: &Path| State::read(pins, &rules).ok()).await.flatten()
    }

    /// Without a valid version, those of an earlier daemon stay, unless they admit more than this host does.
    async fn check_standing(&mut self) {
        match self.maps.with(planned::check_standing).await {
            Some(Err(error)) if !matches!(error, Error::NotAttached(_)) => {
                self.puts.fail(|| format!("the shared rules cannot be checked: {error}"));
            }
            outcome => {
                let stand = matches!(outcome, Some(Ok(true)));
                self.keeps = stand && self.followed.seen().is_some_and(|seen| seen.version == 0);
                self.puts.succeed("the shared rules can be checked again");
            }
        }
    }

    fn show(&self) {
        let version = self.followed.known().map_or(0, |known| known.version);
        let lost = self.has_lost.then(|| {
            format!("the engine has lost version {version} of the shared rules, which stays in force: the next `ratelimit fleet rules set` or `del` on this host writes it again")
        });
        let kept = self.keeps.then(|| KEPT.to_owned());
        let told = self.engine.problem().or(self.puts.problem());
        let problem = lost.or(kept).or_else(|| told.map(ToOwned::to_owned));
        let rules = self.accepts.then(|| SharedRules {
            version,
            in_force: self.in_force.version,
            refused: self.refused.clone(),
            problem,
        });
        self.shown.change(|told| told.rules = rules);
    }
}
