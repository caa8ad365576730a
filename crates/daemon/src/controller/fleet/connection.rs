//! The connection to the engine: whether it answers, and when to try again.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ratelimit_base::{
    certificate_end::CertificateEnd,
    notify::journal::{Level, say},
};
use ratelimit_fleet::{
    engine::Engine,
    error::Error,
    hosts::{Heartbeat, Hosts},
    outage::Outage,
    way::{Place, Way},
};
use ratelimit_protocol::fleet::About;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::{
    sync::watch,
    time::{sleep, sleep_until},
};

use crate::controller::events::changes::record_of_daemon;

/// The time for the first try.
const FIRST: Duration = Duration::from_secs(1);
/// The shortest and the longest time for each further try.
const TRIES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];
/// Part of the time without an engine that one try takes at most. So the fleet is back soon after a short loss.
const PART: u32 = 4;
/// Time without a failure after which the engine counts as back, if there is nothing to report.
const STEADY: Duration = Duration::from_secs(2);

/// What an operator knows of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It answers.
    Up,
    /// It answers, but not for all sources.
    Partly,
    /// It does not answer.
    Down,
}

/// Whether the engine answers.
pub(super) struct Connection {
    pins: PathBuf,
    pub(super) way: Way,
    /// The engine, while it answers.
    link: watch::Sender<Option<Engine>>,
    /// Number of the connection. A later one does not fail with the calls of an earlier one.
    pub(super) number: u64,
    address: String,
    /// Whether this host shares limits.
    shares: bool,
    /// When certificates of the file end.
    pub(super) certificates: Vec<CertificateEnd>,
    /// What the operator was told last. None at the start.
    told: Option<Told>,
    /// When that began to be so.
    since: Instant,
    /// Whether the operator was ever told that it answers.
    has_answered: bool,
    /// When the last connection began.
    connected: Instant,
    /// When a call has failed last.
    failed: Instant,
    /// Why it does not answer, as the operator knows it.
    outage: Outage,
    /// What kept the engine from answering last.
    pub(super) error: Option<String>,
    /// Calls that have failed.
    pub(super) failures: u64,
}

impl Connection {
    pub(super) fn new(pins: &Path, place: &Place, shares: bool) -> Self {
        let (pins, address, now) = (pins.to_owned(), place.to_string(), Instant::now());
        Self {
            pins,
            way: Way::to(place.clone()),
            link: watch::channel(None).0,
            number: 0,
            address,
            shares,
            certificates: place.ends(),
            told: None,
            since: now,
            has_answered: false,
            connected: now,
            failed: now,
            outage: Outage::default(),
            error: None,
            failures: 0,
        }
    }

    /// Returns the engine, if it answers.
    pub(super) fn engine(&self) -> Option<Engine> {
        self.link.borrow().clone()
    }

    /// Returns which of several servers is in use.
    pub(super) fn in_use(&self) -> Option<String> {
        self.link.borrow().as_ref().and_then(Engine::server).map(str::to_owned)
    }

    /// Returns whether the engine answers.
    pub(super) fn is_up(&self) -> bool {
        self.link.borrow().is_some()
    }

    /// Returns the engine for others, as long as it answers.
    pub(super) fn follow(&self) -> watch::Receiver<Option<Engine>> {
        self.link.subscribe()
    }

    /// Returns whether the engine answers, and since when the operator knows its state.
    pub(super) fn state(&self) -> (bool, Duration) {
        (self.is_up(), self.since.elapsed())
    }

    /// Notes that a call has failed, and tells the operator each reason once.
    pub(super) fn fail(&mut self, error: &Error) {
        self.note(error);
        self.link.send_replace(None);
        let is_down = self.told == Some(Told::Down);
        let is_new = self.outage.has_new(error);
        if is_down && is_new {
            self.say(Level::Warning, &format!("{} still does not answer: {error}", self.address));
        }
        let address = &self.address;
        let text = match self.shares {
            true => format!("{address} gives no shares: {error}: local limits apply until it does"),
            false => format!("{address} does not answer: {error}"),
        };
        self.tell(Told::Down, Level::Warning, &text);
    }

    fn note(&mut self, error: &Error) {
        self.failures += 1;
        self.failed = Instant::now();
        self.error = Some(error.to_string());
    }

    /// Takes a connection that has answered a heartbeat.
    pub(super) fn connect(&mut self, engine: Engine) {
        self.link.send_replace(Some(engine));
        self.connected = Instant::now();
        self.number += 1;
    }

    /// Notes that the engine has answered reports. `failure` is that of others.
    pub(super) fn succeed(&mut self, failure: Option<&Error>) {
        if !self.is_up() {
            return;
        }
        if let Some(error) = failure {
            self.note(error);
            let text = format!("{} answers only for some sources: {error}", self.address);
            return self.tell(Told::Partly, Level::Warning, &text);
        }
        // Reports for other servers of a cluster succeed meanwhile.
        if has_recovered(self.told, self.failed.elapsed()) {
            self.tell_success();
        }
    }

    /// Notes that the engine has answered a heartbeat. A server that answers only heartbeats is no engine.
    pub(super) fn keep(&mut self) {
        if self.is_up() && self.is_steady() && has_recovered(self.told, self.failed.elapsed()) {
            self.tell_success();
        }
    }

    /// Returns whether the connection has held for a while.
    fn is_steady(&self) -> bool {
        self.connected.elapsed() >= STEADY
    }

    fn tell_success(&mut self) {
        let after = match self.told {
            None => String::new(),
            Some(_) if !self.has_answered => format!(", after {:.1} s", self.since.elapsed().as_secs_f64()),
            Some(_) => format!(" again, after {:.1} s", self.since.elapsed().as_secs_f64()),
        };
        self.has_answered = true;
        let shared = if self.shares { ": limits are shared" } else { "" };
        self.tell(Told::Up, Level::Info, &format!("{} answers{after}{shared}", self.address));
    }

    /// Tells the operator what has changed.
    fn tell(&mut self, state: Told, level: Level, text: &str) {
        if self.told != Some(state) {
            (self.told, self.since) = (Some(state), Instant::now());
            self.say(level, text);
        }
        if state != Told::Down {
            self.outage.end();
        }
    }

    fn say(&self, level: Level, text: &str) {
        let text = format!("fleet: {text}");
        say(level, &text);
        record_of_daemon(&self.pins, &text);
    }

    /// Returns how long to wait before the next try. An engine that answers heartbeats and no reports is not asked in an
    /// endless loop.
    pub(super) fn rest(&self) -> Duration {
        if self.told == Some(Told::Down) && !self.is_up() && self.number > 0 && !self.is_steady() {
            self.patience()
        } else {
            Duration::ZERO
        }
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

/// Returns whether an answer means that the engine answers for all sources, so long after the last failure.
fn has_recovered(told: Option<Told>, since_failure: Duration) -> bool {
    told != Some(Told::Partly) || since_failure >= STEADY
}

/// Tries once, after a rest. Returns when the engine has answered a heartbeat, or at the end of its patience.
pub(super) async fn attempt(
    way: &Way,
    heartbeat: &Heartbeat,
    about: &About,
    [rest, patience, deadline]: [Duration; 3],
) -> Result<(Engine, Heard), Error> {
    sleep(rest).await;
    let end = tokio::time::Instant::now() + patience;
    let outcome = async {
        let engine = way.connect(patience).await?;
        let heard = beat(&engine, heartbeat, about).await?;
        Ok((engine.within(deadline), heard))
    };
    let outcome = outcome.await;
    if outcome.is_err() {
        sleep_until(end).await;
    }
    outcome
}

/// The hosts of a fleet, or why a cluster that answers does not tell them.
pub(super) type Heard = Result<Hosts, Error>;

/// Tells the engine that this host is there. Fails if the engine does not answer at all.
pub(super) async fn beat(engine: &Engine, heartbeat: &Heartbeat, about: &About) -> Result<Heard, Error> {
    match heartbeat.beat(engine, about).await {
        // One server of a cluster knows the hosts. Without it, the others still have the records of their sources.
        Err(error) if engine.answers_in_part().await => Ok(Err(error)),
        hosts => hosts.map(Ok),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_fails_for_some_sources_is_not_whole_again_with_the_next_answer() {
        for (told, since_failure, expected) in [
            (None, Duration::ZERO, true),
            (Some(Told::Up), Duration::ZERO, true),
            (Some(Told::Down), Duration::ZERO, true),
            (Some(Told::Partly), Duration::from_millis(200), false),
            (Some(Told::Partly), STEADY, true),
        ] {
            assert_eq!(has_recovered(told, since_failure), expected, "{told:?}, {since_failure:?}");
        }
    }
}
