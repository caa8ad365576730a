//! The connection to the engine: whether it answers, and when to try again.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::time::sleep_until;

use crate::{
    controller::{
        events::changes::record_of_daemon,
        notify::journal::{Level, say},
    },
    fleet::{
        address::Address,
        engine::Engine,
        error::Error,
        hosts::{Heartbeat, Host, Hosts},
    },
};

/// The time for the first try.
const FIRST: Duration = Duration::from_secs(1);
/// The shortest and the longest time for each further try.
const TRIES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];
/// Part of the time without an engine that one try takes at most. So the fleet is back soon after a short loss.
const PART: u32 = 4;
/// Time without a failure after which the engine counts as back, if there is nothing to report.
const STEADY: Duration = Duration::from_secs(2);

/// Whether the engine answers.
pub(super) struct Connection {
    pins: PathBuf,
    /// The engine, while it answers.
    pub(super) engine: Option<Engine>,
    /// Number of the connection. A later one does not fail with the calls of an earlier one.
    pub(super) number: u64,
    address: String,
    /// What the operator was told last. None at the start.
    told: Option<bool>,
    /// When that began to be so.
    since: Instant,
    connected: Instant,
    /// What kept the engine from answering last.
    pub(super) error: Option<String>,
    /// Calls that have failed.
    pub(super) failures: u64,
}

impl Connection {
    pub(super) fn new(pins: &Path, address: &Address) -> Self {
        let (pins, address, now) = (pins.to_owned(), address.to_string(), Instant::now());
        Self {
            pins,
            engine: None,
            number: 0,
            address,
            told: None,
            since: now,
            connected: now,
            error: None,
            failures: 0,
        }
    }

    /// Returns whether the engine answers, as far as the operator was told, and for how long.
    pub(super) fn state(&self) -> (bool, Duration) {
        (self.told == Some(true), self.since.elapsed())
    }

    /// Notes that a call has failed, and tells the operator once.
    pub(super) fn fail(&mut self, error: &Error) {
        self.failures += 1;
        self.engine = None;
        self.error = Some(error.to_string());
        if self.told != Some(false) {
            let text = "local limits apply until it answers";
            self.tell(false, Level::Warning, &format!("fleet: no answer from {}: {error}: {text}", self.address));
        }
    }

    /// Takes a connection that has answered a heartbeat.
    pub(super) fn connect(&mut self, engine: Engine) {
        (self.engine, self.connected) = (Some(engine), Instant::now());
        self.number += 1;
    }

    /// Notes that the engine has answered reports. `failure` is that of others.
    pub(super) fn succeed(&mut self, failure: Option<&Error>) {
        if let Some(error) = failure {
            self.failures += 1;
            self.error = Some(error.to_string());
        }
        if self.engine.is_some() {
            self.tell_success();
        }
    }

    /// Notes that the engine has answered a heartbeat. A server that answers only heartbeats is no engine.
    pub(super) fn keep(&mut self) {
        if self.engine.is_some() && self.connected.elapsed() >= STEADY {
            self.tell_success();
        }
    }

    fn tell_success(&mut self) {
        if self.told != Some(true) {
            let after = match self.told {
                Some(false) => format!(" again, after {:.1} s", self.since.elapsed().as_secs_f64()),
                _ => String::new(),
            };
            self.tell(true, Level::Info, &format!("fleet: {} answers{after}: limits are shared", self.address));
        }
    }

    fn tell(&mut self, is_up: bool, level: Level, text: &str) {
        (self.told, self.since) = (Some(is_up), Instant::now());
        say(level, text);
        record_of_daemon(&self.pins, text);
    }

    /// Returns how long the next try may take. Hosts that have lost the engine together do not try again together.
    pub(super) fn patience(&self) -> Duration {
        let [shortest, longest] = TRIES;
        if self.told.is_none() {
            return FIRST;
        }
        (self.since.elapsed() / PART).mul_f64(fraction()).clamp(shortest, longest)
    }
}

/// Tries once. Returns when the engine has answered a heartbeat, or at the end of its patience.
pub(super) async fn attempt(
    address: Address,
    heartbeat: &Heartbeat,
    host: &Host,
    patience: Duration,
    deadline: Duration,
) -> Result<(Engine, Hosts), Error> {
    let end = tokio::time::Instant::now() + patience;
    let outcome = async {
        let engine = Engine::connect(&address, patience, deadline).await?;
        let hosts = heartbeat.beat(&engine, host).await?;
        Ok((engine, hosts))
    };
    let outcome = outcome.await;
    if outcome.is_err() {
        sleep_until(end).await;
    }
    outcome
}

/// Returns a random number from 0 to 1, so that hosts do not all act at once.
pub(super) fn fraction() -> f64 {
    f64::from(u32::from_ne_bytes(random())) / f64::from(u32::MAX)
}

/// Returns random bytes. Zeroes if the kernel has none.
pub(super) fn random<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    let _ = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    bytes
}
