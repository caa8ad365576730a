//! Asks the daemon of this host to stop clients at the network card, after a rule with `stop-at-nic` has refused them.
//! No request waits for that.

mod asked;
mod connection;
mod counts;
mod sender;
#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use tokio::sync::mpsc::{self, error::TrySendError};

use self::{
    asked::{Ask, Asked},
    counts::{Counts, Outcome},
};
pub(super) use self::{connection::of_texts, sender::Sender};
use crate::{
    check::{ADDRESS, Attributes, Limiter, Rule, client_of},
    sharing::{Origin, Sharing, Who},
    stops::{Connection, Request},
    usage::label,
};

/// Requests to the daemon that wait for their turn.
const QUEUE: usize = 256;

/// Decides which clients the daemon is asked to stop.
#[derive(Debug)]
pub(super) struct Stops {
    sharing: Sharing,
    /// How the rules in force that stop clients tell them apart.
    who: RwLock<Arc<[Who]>>,
    asked: Arc<Asked>,
    queue: mpsc::Sender<Ask>,
    counts: Arc<Counts>,
}

impl Stops {
    /// Returns it without rules, and what sends its requests to this socket. `seed` must be random and secret.
    pub(super) fn new(socket: PathBuf, seed: [u64; 2]) -> (Self, Sender) {
        let (queue, asks) = mpsc::channel(QUEUE);
        let (asked, counts) = (Arc::<Asked>::default(), Arc::<Counts>::default());
        let sender = Sender::new(socket, asks, Arc::clone(&asked), Arc::clone(&counts));
        (Self { sharing: Sharing::new(seed), who: RwLock::default(), asked, queue, counts }, sender)
    }

    /// Watches the requests that the rules of this limiter tell apart from now on.
    pub(super) fn change(&self, limiter: &Limiter) {
        let mut all = Vec::new();
        for who in limiter.rules().map(|(rule, ..)| rule).filter(|rule| rule.stops()).map(Who::of) {
            if !all.contains(&who) {
                all.push(who);
            }
        }
        *self.who.write().unwrap_or_else(PoisonError::into_inner) = all.into();
    }

    /// Notes a request that was decided. `stop` is the rule that refuses it and stops such clients.
    pub(super) fn note(
        &self,
        attributes: &impl Attributes,
        connection: Option<Connection>,
        stop: Option<&Rule>,
        now: u64,
    ) {
        let all = Arc::clone(&self.who.read().unwrap_or_else(PoisonError::into_inner));
        if all.is_empty() {
            return;
        }
        let named = attributes.value(ADDRESS).and_then(|ip| ip.parse().ok());
        let remote = connection.map(|connection| connection.remote.ip());
        let refusing = stop.map(|rule| (rule, Who::of(rule)));
        let mut may_stop = false;
        if let Some(origin) = Origin::of(remote, named) {
            for who in &*all {
                let is_refused = refusing.as_ref().is_some_and(|(_, refusing)| refusing == who);
                may_stop |= self.sharing.note(who, origin, attributes, is_refused, now);
            }
        }
        let Some((rule, _)) = refusing else { return };
        match connection {
            None => self.counts.count(Outcome::NoConnection),
            Some(_) if !may_stop => self.counts.count(Outcome::Shared),
            Some(connection) => self.ask(rule, attributes, connection, now),
        }
    }

    /// Asks the daemon, unless it was asked for this client lately.
    fn ask(&self, rule: &Rule, attributes: &impl Attributes, connection: Connection, now: u64) {
        let place = (connection.remote.ip(), connection.local.port());
        if !self.asked.begin(place, now) {
            return;
        }
        let (rule, client) = (rule.name().to_owned(), label(client_of(rule, attributes)));
        let line = Request { connection, rule, client }.write();
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Ask { line, place, at: now }) {
            self.counts.count(Outcome::Dropped);
        }
    }

    /// Adds its metrics to a page.
    pub(super) fn write(&self, page: &mut String) {
        self.counts.write(page);
    }
}
