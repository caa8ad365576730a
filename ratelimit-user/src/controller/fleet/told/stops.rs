//! Tells which clients this host limits for applications, and limits those that others tell of.

use std::{collections::HashMap, path::Path};

use tokio::task::spawn_blocking;

use super::once::Once;
use crate::{
    config::daemon::fleet::Fleet,
    controller::stops::Desk,
    dataplane::sys::host,
    fleet::{
        engine::Engine,
        kept::{
            bans::{Exchange, TELLS, Told, name},
            stops::{self, Stopped},
        },
    },
};

/// The most calls in one step.
const CALLS: usize = 24;
/// Failures in a row before the operator hears of them. A loss of the engine is told elsewhere.
const PATIENCE: u32 = 5;

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
            self.told.retain(|_, end| *end > now);
            let tells = if self.tells { self.desk.own() } else { Vec::new() };
            let is_new = |(stopped, _): &(Stopped, _)| !self.told.contains_key(stopped);
            let tells: Vec<_> = tells.into_iter().filter(is_new).take(TELLS).collect();
            match self.exchange.exchange(engine, &tells).await {
                Ok(news) => {
                    self.engine.succeed("hosts tell each other again of the clients that they limit");
                    if news.is_anew {
                        // The engine has lost what was told, so this host tells it again.
                        self.told.clear();
                    }
                    let is_over = !news.has_more && !news.is_anew && tells.len() < TELLS;
                    self.hear(news.told, now).await;
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

    async fn hear(&mut self, told: Vec<Told<Stopped>>, now: u64) {
        let (own, others): (Vec<_>, Vec<_>) = told.into_iter().partition(|told| told.host == self.host);
        for Told { source, left, .. } in own.into_iter().filter(|told| !told.left.is_zero()) {
            self.told.insert(source, now.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)));
        }
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
