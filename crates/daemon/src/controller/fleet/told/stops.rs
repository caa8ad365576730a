//! Tells which clients this host limits for applications, and limits those that others tell of.

use std::{collections::HashMap, path::Path, time::Duration};

use ratelimit_dataplane::sys::host;
use ratelimit_fleet::{
    engine::Engine,
    kept::{
        bans::{Exchange, TELLS, Told, name},
        stops::{self},
    },
    table::Fleet,
};
use ratelimit_protocol::stops::Stopped;
use tokio::task::spawn_blocking;

use super::once::Once;
use crate::controller::stops::Desk;

/// The most calls in one step.
const CALLS: usize = 24;
/// Failures in a row before the operator hears of them. A loss of the engine is told elsewhere.
const PATIENCE: u32 = 5;

/// The limits in force that applications of this host have asked for, and how long they last.
type Own = HashMap<Stopped, Duration>;

/// What this host tells and hears of limited clients.
pub(super) struct Stops {
    desk: Desk,
    tells: bool,
    accepts: bool,
    host: String,
    exchange: Exchange<Stopped>,
    /// What this host has told, with the ends in nanoseconds of the monotonic clock.
    told: HashMap<Stopped, u64>,
    engine: Once,
}

impl Stops {
    /// Begins for a host that calls itself so.
    pub(super) fn of(pins: &Path, fleet: &Fleet, host: String, desk: &Desk) -> Self {
        Self {
            desk: desk.clone(),
            tells: fleet.tells_bans,
            accepts: fleet.accepts.bans,
            exchange: stops::exchange(host.clone()),
            host,
            told: HashMap::new(),
            engine: Once::after(PATIENCE, pins),
        }
    }

    /// Waits until this host has something new to tell.
    pub(super) async fn due(&self) {
        self.desk.begun().await;
    }

    /// Tells and hears once.
    pub(super) async fn step(&mut self, engine: Option<&Engine>) {
        let Some(engine) = engine.filter(|_| self.tells || self.accepts) else { return };
        for _ in 0..CALLS {
            let now = host::now();
            let own: Own = if self.tells { self.desk.own().into_iter().collect() } else { Own::new() };
            self.told.retain(|stopped, end| *end > now && own.contains_key(stopped));
            let is_new = |(stopped, _): &(&Stopped, _)| !self.told.contains_key(stopped);
            let tells = own.iter().filter(is_new).map(|(stopped, left)| (stopped.clone(), *left));
            let tells: Vec<_> = tells.take(TELLS).collect();
            match self.exchange.exchange(engine, &tells).await {
                Ok(news) => {
                    self.engine.succeed("hosts tell each other again of the clients that they limit");
                    if news.is_anew {
                        // The engine has lost what was told, so this host tells it again.
                        self.told.clear();
                    }
                    let is_over = !news.has_more && !news.is_anew && tells.len() < TELLS;
                    self.hear(news.told, &own, now).await;
                    if is_over {
                        return;
                    }
                }
                Err(error) => {
                    return self
                        .engine
                        .fail(|| format!("hosts cannot tell each other of the clients that they limit: {error}"));
                }
            }
        }
    }

    async fn hear(&mut self, told: Vec<Told<Stopped>>, own_ones: &Own, now: u64) {
        let (own, others): (Vec<_>, Vec<_>) = told.into_iter().partition(|told| told.host == self.host);
        self.told.extend(own.into_iter().filter_map(|told| believed(told, own_ones, now)));
        if self.accepts && !others.is_empty() {
            let desk = self.desk.clone();
            let hear = move || {
                for Told { source, host, left } in others.into_iter().filter(|told| !told.left.is_zero()) {
                    desk.hear(source, name(&host), left);
                }
            };
            // A failure is one of the thread.
            let _ = spawn_blocking(hear).await;
        }
    }
}

/// Returns what this host has told, as the engine says, and its end. None if that is not true: whoever can write to the
/// engine can do so in the name of this host.
fn believed(Told { source, left, .. }: Told<Stopped>, own: &Own, now: u64) -> Option<(Stopped, u64)> {
    let left = left.min(*own.get(&source)?);
    let end = now.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
    (!left.is_zero()).then_some((source, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_in_force_of_this_host_are_believed_to_be_told() {
        let stopped = |text: &str| text.parse::<Stopped>().unwrap();
        let own: Own = [(stopped("203.0.113.7 443 login"), Duration::from_nanos(50))].into();
        let believed = |text: &str, left| {
            let told = Told { source: stopped(text), host: "here".to_owned(), left: Duration::from_nanos(left) };
            believed(told, &own, 1_000).map(|(_, end)| end)
        };
        assert_eq!(believed("203.0.113.7 443 login", 40), Some(1_040));
        assert_eq!(believed("203.0.113.7 443 login", u64::MAX), Some(1_050));
        for other in ["203.0.113.7 443 other", "203.0.113.7 80 login", "203.0.113.8 443 login"] {
            assert_eq!(believed(other, 40), None, "{other}");
        }
        assert_eq!(believed("203.0.113.7 443 login", 0), None);
    }
}
