//! The web client: a source that behaves.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ratelimit_tests::VICTIM_IPV4;
use ureq::Agent;

use crate::server::PAGE;

/// From one request to the next, if the answer comes in time.
const INTERVAL: Duration = Duration::from_millis(5);
/// When a client gives up.
const PATIENCE: Duration = Duration::from_secs(2);

/// A client that asks for one page after the other, each through a connection of its own.
#[derive(Debug, Default)]
pub(crate) struct Client {
    requests: Mutex<Vec<Request>>,
    stop: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    begin: Instant,
    /// Unless it failed.
    latency: Option<Duration>,
}

/// Some of the requests.
#[derive(Debug, Clone)]
pub(crate) struct Requests(Vec<Request>);

impl Client {
    /// Sends requests until stopped.
    pub(crate) fn run(&self) {
        let agent = Agent::config_builder().proxy(None).max_idle_connections(0).timeout_global(Some(PATIENCE)).build();
        let agent = Agent::new_with_config(agent);
        let url = format!("http://{VICTIM_IPV4}/");
        while !self.stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let latency = fetch(&agent, &url).ok().map(|()| begin.elapsed());
            self.lock().push(Request { begin, latency });
            thread::sleep(INTERVAL.saturating_sub(begin.elapsed()));
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// All requests that have an end so far.
    pub(crate) fn requests(&self) -> Requests {
        Requests(self.lock().clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gets the whole page.
fn fetch(agent: &Agent, url: &str) -> Result<()> {
    let page = agent.get(url).call()?.body_mut().read_to_vec()?;
    ensure!(page.len() == PAGE, "the page has {} bytes", page.len());
    Ok(())
}

impl Requests {
    /// Those that began in this time.
    pub(crate) fn between(&self, begin: Instant, end: Instant) -> Self {
        Self(self.0.iter().filter(|request| (begin..end).contains(&request.begin)).copied().collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn failed(&self) -> usize {
        self.0.iter().filter(|request| request.latency.is_none()).count()
    }

    /// The latency that this part of the answered requests, from 0 to 1, did not exceed; none if no request was answered.
    pub(crate) fn latency(&self, part: f64) -> Option<Duration> {
        let mut latencies: Vec<_> = self.0.iter().filter_map(|request| request.latency).collect();
        latencies.sort_unstable();
        let last = latencies.len().checked_sub(1)?;
        latencies.get((last as f64 * part).round() as usize).copied()
    }
}
