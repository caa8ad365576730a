//! Asks the daemon of this host to stop clients at the network card, after a rule with `stop-at-nic` has refused them.
//! No request waits for that.

mod asked;
mod connection;
mod counts;
mod sender;
#[cfg(test)]
mod tests;

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use ratelimit_limiter::{ADDRESS, Attributes, Limiter, Rule, client_of};
use ratelimit_protocol::stops::{Connection, Request};
use tokio::sync::mpsc::{self, error::TrySendError};

use self::{
    asked::{Ask, Asked},
    counts::{Counts, Outcome},
};
pub(super) use self::{connection::of_texts, sender::Sender};
use super::question::Named;
use crate::{
    sharing::{Finding, Origin, Sharing, Who},
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
    pub(super) fn note<A: Attributes>(&self, attributes: &A, named: Named, stop: Option<&Rule>, now: u64) {
        self.note_parts(&[(attributes, named, stop)], now);
    }

    /// Notes one request that was decided in several parts, such as the descriptors of a proxy. A part that does not say
    /// who asks is no other client if another part says so.
    pub(super) fn note_parts<A: Attributes>(&self, parts: &[(&A, Named, Option<&Rule>)], now: u64) {
        let all = Arc::clone(&self.who.read().unwrap_or_else(PoisonError::into_inner));
        if all.is_empty() {
            return;
        }
        // Of a single part, nothing else can say it.
        let are_told = |who: &&Who| parts.len() > 1 && parts.iter().any(|(attributes, ..)| who.is_told(*attributes));
        let told: Vec<_> = all.iter().filter(are_told).collect();
        let address = |attributes: &A| attributes.value(ADDRESS).and_then(|ip| ip.parse().ok());
        let of_any = parts.iter().find_map(|(attributes, ..)| address(attributes));
        let mut counted = Vec::new();
        for part in parts {
            let outcome = self.note_part((&all, &told), address(part.0).or(of_any), *part, now);
            if let Some(outcome) = outcome.filter(|outcome| !counted.contains(outcome)) {
                counted.push(outcome);
                self.counts.count(outcome);
            }
        }
    }

    /// Notes a part of a request of a client that has this address, as the caller says. Some part says who asks by each of
    /// the attributes `told`. Returns what becomes of a client that the daemon is not asked for.
    fn note_part<A: Attributes>(
        &self,
        (all, told): (&[Who], &[&Who]),
        ip: Option<IpAddr>,
        (attributes, named, stop): (&A, Named, Option<&Rule>),
        now: u64,
    ) -> Option<Outcome> {
        let connection = if let Named::Connection(connection) = named { Some(connection) } else { None };
        let refusing = stop.map(|rule| (rule, Who::of(rule)));
        let mut found = Finding::NotRefused;
        if let Some(origin) = Origin::of(connection.map(|connection| connection.remote.ip()), ip) {
            for who in all {
                if origin.is_direct && told.contains(&who) && !who.is_told(attributes) {
                    continue;
                }
                let is_refused = refusing.as_ref().is_some_and(|(_, refusing)| refusing == who);
                let finding = self.sharing.note(who, origin, attributes, is_refused, now);
                found = if is_refused { finding } else { found };
            }
        }
        let (rule, who) = refusing?;
        // A reload can have taken the rule away meanwhile.
        match (named, found) {
            _ if !all.contains(&who) => None,
            (Named::Nothing, _) => Some(Outcome::NoConnection),
            (Named::NotAllowed, _) => Some(Outcome::NotAllowed),
            (Named::Connection(connection), Finding::Alone) => self.ask(rule, attributes, connection, now),
            (_, Finding::Early) => Some(Outcome::Early),
            (_, Finding::Shared) => Some(Outcome::Shared),
            (_, Finding::Proxied) => Some(Outcome::Proxied),
            (_, Finding::NotRefused | Finding::Repeated) => None,
        }
    }

    /// Asks the daemon, unless it was asked for this client lately. Returns whether there is no room for that.
    fn ask(&self, rule: &Rule, attributes: &impl Attributes, connection: Connection, now: u64) -> Option<Outcome> {
        let place = (connection.remote.ip(), connection.local.port());
        if !self.asked.begin(place, now) {
            return None;
        }
        let (rule, client) = (rule.name().to_owned(), label(client_of(rule, attributes)));
        let line = Request { connection, rule, client }.write();
        let sent = self.queue.try_send(Ask { line, place, at: now });
        matches!(sent, Err(TrySendError::Full(_))).then_some(Outcome::Dropped)
    }

    /// Adds its metrics to a page.
    pub(super) fn write(&self, page: &mut String) {
        self.counts.write(page);
    }
}
