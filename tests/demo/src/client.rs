//! The web client, a source within its limit.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ratelimit_sandbox::VICTIM_IPV4;
use ureq::Agent;

use crate::server::PAGE;

/// Time between two requests, if the response arrives in time.
const INTERVAL: Duration = Duration::from_millis(5);
/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(2);

/// A client that requests pages one by one, each over a new connection.
#[derive(Debug, Default)]
pub(crate) struct Client {
    requests: Mutex<Vec<Request>>,
    stop: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    begin: Instant,
    /// Missing if the request failed.
    latency: Option<Duration>,
}

/// A set of requests.
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

    /// Returns all completed requests.
    pub(crate) fn requests(&self) -> Requests {
        Requests(self.lock().clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fetches the whole page.
fn fetch(agent: &Agent, url: &str) -> Result<()> {
    let page = agent.get(url).call()?.body_mut().read_to_vec()?;
    ensure!(page.len() == PAGE, "the page has {} bytes", page.len());
    Ok(())
}

impl Requests {
    /// Returns the requests that started in this interval.
    pub(crate) fn between(&self, begin: Instant, end: Instant) -> Self {
        Self(self.0.iter().filter(|request| (begin..end).contains(&request.begin)).copied().collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn failed(&self) -> usize {
        self.0.iter().filter(|request| request.latency.is_none()).count()
    }

    /// Returns a quantile of the latency, from 0 to 1, or none if no request succeeded.
    pub(crate) fn latency(&self, part: f64) -> Option<Duration> {
        let mut latencies: Vec<_> = self.0.iter().filter_map(|request| request.latency).collect();
        latencies.sort_unstable();
        let last = latencies.len().checked_sub(1)?;
        latencies.get((last as f64 * part).round() as usize).copied()
    }
}
