//! The loop of a host: it reports its busy sources, and grants the leases that the engine answers.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ratelimit_common::fleet::{
    lease::{MOST, WHOLE},
    share::Terms,
};
use ratelimit_dataplane::sys::host::now;
use ratelimit_fleet::{
    engine::{Engine, deadline},
    error::Error,
    hosts::{Heartbeat, Hosts},
    table::{Fleet, OnLoss, Weight},
};
use ratelimit_protocol::fleet::{About, Status};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    call::{Call, Reported},
    connection::{Connection, Heard, attempt, beat, fraction, random},
    load,
    messages::Messages,
    sources::{How, Sources},
    told,
    watched::Next,
};

/// Time between two looks at events.
const EVENTS: Duration = Duration::from_millis(20);
/// Time between two looks at buckets, and between two heartbeats.
const LOOKS: Duration = Duration::from_secs(1);
/// Looks after which the engine is asked again by which rule it forgets keys.
const POLICY: u32 = 60;
/// How long [`OnLoss::Hold`] keeps the last shares.
const HOLD: Duration = Duration::from_secs(600);
/// The most characters of a reason that other hosts hear.
const REFUSED: usize = 100;
/// Sources in the status.
const SHOWN: usize = 20;
/// The least share that a lease can express.
const LEAST: f64 = WHOLE as f64 / MOST as f64;

/// The status of a host, for other threads. None without a fleet.
pub type Shown = Arc<Mutex<Option<Status>>>;

/// This host as a part of a fleet.
pub(super) struct Host {
    pins: PathBuf,
    fleet: Fleet,
    terms: Terms,
    weight: f64,
    id: String,
    heartbeat: Arc<Heartbeat>,
    connection: Connection,
    sources: Sources,
    /// Room for reports.
    messages: Messages,
    hosts: Hosts,
    /// When the engine has told them.
    heard: Instant,
    calls: JoinSet<Call>,
    latency: Option<f64>,
    evicts: Option<String>,
    reports: u64,
    shown: Shown,
    told: told::shown::Shown,
}

impl Host {
    pub(super) fn new(pins: &Path, fleet: Fleet, shown: Shown, told: told::shown::Shown) -> Self {
        let id = format!("{}-{:08x}", fleet.name, u32::from_ne_bytes(random()));
        Self {
            pins: pins.to_owned(),
            terms: fleet.terms,
            weight: 1.0,
            heartbeat: Arc::new(Heartbeat::of(id.clone())),
            id,
            connection: Connection::new(pins, &fleet.engine, fleet.accepts.limits),
            fleet,
            sources: Sources::default(),
            messages: Messages::default(),
            hosts: Hosts::default(),
            heard: Instant::now(),
            calls: JoinSet::new(),
            latency: None,
            evicts: None,
            reports: 0,
            shown,
            told,
        }
    }

    /// Returns the engine, as long as it answers.
    pub(super) fn link(&self) -> watch::Receiver<Option<Engine>> {
        self.connection.follow()
    }

    /// Reports and grants, until it is dropped.
    pub(super) async fn run(&mut self) {
        self.show();
        self.look();
        self.try_again();
        let (mut events, mut looks) = (interval(EVENTS), interval(LOOKS));
        events.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut next, mut looks_since_policy) = (Instant::now() + self.pause(), 0);
        loop {
            tokio::select! {
                () = sleep_until(next) => {
                    // A host that was suspended does not make up for the periods.
                    next = (next + self.pause()).max(Instant::now());
                    self.report(Sources::period);
                }
                _ = events.tick() => self.report(Sources::urgent),
                _ = looks.tick() => {
                    self.look();
                    self.beat();
                    if looks_since_policy == POLICY {
                        looks_since_policy = 0;
                        self.ask_for_policy();
                    }
                    looks_since_policy += 1;
                    self.show();
                }
                Some(Ok(call)) = self.calls.join_next() => self.done(call),
            }
        }
    }

    /// Leaves the fleet: no source has a share any more.
    pub(super) async fn leave(&mut self) {
        self.sources.end();
        if let Some(engine) = self.connection.engine() {
            // The engine forgets a silent host anyway.
            let _ = self.heartbeat.leave(&engine).await;
        }
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the time until the next report. Hosts that begin together do not stay together.
    fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.terms.period * (0.9 + 0.2 * fraction()))
    }

    fn how(&self) -> How {
        let is_up = self.connection.is_up();
        let next = match self.fleet.on_loss {
            OnLoss::Share if !is_up && self.hosts.count > 1 => Next::Part(self.equal_part()),
            OnLoss::Hold if !is_up && self.connection.state().1 < HOLD => Next::Same,
            _ => Next::Whole,
        };
        let is_divided = self.fleet.divides_bursts() && self.hosts.count > 1;
        let divided = is_divided.then(|| self.equal_part());
        How { terms: self.terms, weight: self.weight, is_up, divided, next }
    }

    /// Returns the part of each host if all get the same. However many hosts the engine tells, it is the least share.
    fn equal_part(&self) -> f64 {
        (1.0 / self.hosts.count.max(1) as f64).max(self.terms.least)
    }

    /// Sends the reports that `add` adds.
    fn report(&mut self, add: impl FnOnce(&mut Sources, &How, u64, &mut Messages)) {
        let how = self.how();
        add(&mut self.sources, &how, now(), &mut self.messages);
        let (engine, number) = (self.connection.engine(), self.connection.number);
        if let Some(call) = engine.and_then(|engine| self.messages.send(&engine, &self.terms, number)) {
            self.calls.spawn(call);
        }
        self.messages.clear();
    }

    /// Follows the instance and the load of the host.
    fn look(&mut self) {
        self.weight = match self.fleet.weight {
            Weight::Fixed(weight) => weight,
            Weight::Load => load::weight(),
        };
        // Without an instance, there is nothing to report. A command may be replacing it: the next look tries again.
        if self.fleet.accepts.limits {
            let _ = self.sources.look(&self.pins, self.fleet.limits, self.hosts.count, &self.terms, now());
        }
    }

    fn done(&mut self, call: Call) {
        match call {
            Call::Reports(Reported { number, hashes, answers, failure, latency }) => {
                self.sources.answer(&hashes, &answers, &self.terms, now());
                let answered = answers.iter().flatten().count() as u64;
                self.reports += answered;
                match failure {
                    // A cluster without one of its servers answers for the others.
                    Some(error) if answered == 0 => self.fail(number, &error),
                    failure => {
                        self.latency = Some(latency.as_secs_f64());
                        self.connection.succeed(failure.as_ref());
                    }
                }
            }
            Call::Beat(_, Ok(heard)) => {
                self.hear(heard);
                self.connection.keep();
            }
            Call::Evicts(policy) => self.evicts = policy,
            Call::Beat(number, Err(error)) => self.fail(number, &error),
            Call::Try(Ok((engine, heard))) => {
                self.hear(heard);
                self.connection.connect(engine);
                self.ask_for_policy();
                self.report(Sources::period);
            }
            Call::Try(Err(error)) => {
                self.connection.fail(&error);
                self.try_again();
            }
        }
    }

    /// Gives the connection with this number up, and begins to try again, unless that was done before.
    fn fail(&mut self, number: u64, error: &Error) {
        if self.connection.is_up() && self.connection.number == number {
            self.connection.fail(error);
            self.try_again();
        }
    }

    fn try_again(&mut self) {
        let (way, heartbeat, about) = (self.connection.way.clone(), Arc::clone(&self.heartbeat), self.about());
        let times = [self.connection.rest(), self.connection.patience(), deadline(&self.terms)];
        self.calls.spawn(async move { Call::Try(attempt(&way, &heartbeat, &about, times).await) });
    }

    fn ask_for_policy(&mut self) {
        if let Some(engine) = self.connection.engine() {
            self.calls.spawn(async move { Call::Evicts(engine.evicts().await.ok().flatten()) });
        }
    }

    fn beat(&mut self) {
        let Some(engine) = self.connection.engine() else { return };
        let (heartbeat, about, number) = (Arc::clone(&self.heartbeat), self.about(), self.connection.number);
        self.calls.spawn(async move { Call::Beat(number, beat(&engine, &heartbeat, &about).await) });
    }

    fn about(&self) -> About {
        let rules = self.told.read().rules;
        About {
            name: self.fleet.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            weight: self.weight,
            limit: self.sources.default_limit(),
            rules: rules.as_ref().and_then(|rules| rules.in_force),
            refused: rules.and_then(|rules| rules.refused).map(|text| text.chars().take(REFUSED).collect()),
        }
    }

    /// Takes the hosts. Unless the operator has set it, the least share is at most a tenth of what each one gets.
    fn hear(&mut self, heard: Heard) {
        let Ok(hosts) = heard.inspect_err(|error| self.connection.succeed(Some(error))) else { return };
        let tenth = 0.1 / hosts.count.max(1) as f64;
        if !self.fleet.has_least {
            self.terms.least = self.fleet.terms.least.min(tenth).max(LEAST);
        }
        (self.hosts, self.heard) = (hosts, Instant::now());
    }

    fn show(&self) {
        let (reported, shared, sources) = self.sources.status(SHOWN, &self.terms, now());
        let ((is_up, since), told) = (self.connection.state(), self.told.read());
        let status = Status {
            engine: self.connection.way.in_words(),
            in_use: self.connection.in_use(),
            is_up,
            since_seconds: since.as_secs_f64(),
            error: self.connection.error.clone().filter(|_| !is_up),
            latency_seconds: self.latency,
            evicts: self.evicts.clone(),
            period_seconds: self.terms.period,
            id: self.id.clone(),
            hosts: self.hosts.count,
            members: self.hosts.members_after(self.heard.elapsed()),
            reported,
            shared,
            reports: self.reports,
            failures: self.connection.failures,
            gossip: self.connection.way.places(),
            certificates: self.connection.certificates.clone(),
            sources,
            denies: told.denies,
            rules: told.rules,
        };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }
}
