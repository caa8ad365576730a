//! Asks a rule about requests of the past.

use std::collections::HashMap;

use ratelimit_limiter::{Counted, Limiter, Record, Refusal, Rule};

use super::Sample;
use crate::{sharing::is_identity, usage::label};

/// The clients of an answer.
const WORST: usize = 10;
/// The fewest clients whose figures tell nothing about a given one.
pub(in crate::serve) const MANY: usize = 20;
/// The most clients that a replay remembers: twice those that a sample can have.
const CLIENTS: usize = 2 * super::MOST;

/// What a rule would have done.
#[derive(Debug, Default)]
pub(in crate::serve) struct Replayed {
    /// Clients that the rule counts, and their requests.
    pub(in crate::serve) clients: usize,
    pub(in crate::serve) requests: u64,
    /// Clients with a refused request, and the refused requests.
    pub(in crate::serve) hit: usize,
    pub(in crate::serve) refused: u64,
    /// The clients with the most refused requests, and then those with the most requests.
    pub(in crate::serve) worst: Vec<Client>,
    /// Whether these figures are those of many clients, whom the rule does not choose.
    pub(in crate::serve) is_about_many: bool,
}

/// A client.
#[derive(Debug, Default, Clone)]
pub(in crate::serve) struct Client {
    /// Its attributes and their values, without secrets.
    pub(in crate::serve) name: String,
    pub(in crate::serve) requests: u64,
    pub(in crate::serve) refused: u64,
}

#[derive(Debug, Default)]
struct Clients(HashMap<u128, Client>);

impl Clients {
    fn of(&mut self, counted: &Counted<'_>) -> &mut Client {
        let (_, client) = counted.id();
        self.0.entry(client).or_insert_with(|| Client { name: label(counted.client()), ..Client::default() })
    }
}

impl Record for Clients {
    fn admitted(&mut self, counted: &Counted<'_>, _: u32) {
        self.of(counted).requests += 1;
    }

    fn refused(&mut self, counted: &Counted<'_>, _: Refusal) {
        let client = self.of(counted);
        (client.requests, client.refused) = (client.requests + 1, client.refused + 1);
    }
}

/// Returns whether a rule is only about clients that its author has chosen.
pub(in crate::serve) fn chooses_clients(rule: &Rule) -> bool {
    rule.conditions().any(is_identity)
}

/// Asks a rule about all requests of a sample, as if there were no other rule.
pub(in crate::serve) fn replay(rule: &Rule, sample: &Sample) -> Replayed {
    let smaller = rule.clone().with_clients(rule.clients().min(CLIENTS));
    let limiter = Limiter::new([smaller], sample.seed);
    let mut clients = Clients::default();
    for request in &sample.requests {
        limiter.check_and_record(&request.attributes, request.cost, request.at, &mut clients);
    }
    let mut worst: Vec<_> = clients.0.into_values().collect();
    worst.sort_by(|one, other| {
        (other.refused, other.requests, &one.name).cmp(&(one.refused, one.requests, &other.name))
    });
    let is_about_many = worst.len() >= MANY && !chooses_clients(rule);
    let mut found = Replayed { clients: worst.len(), is_about_many, ..Replayed::default() };
    for client in &worst {
        found.requests += client.requests;
        found.refused += client.refused;
        found.hit += usize::from(client.refused > 0);
    }
    worst.truncate(WORST);
    Replayed { worst, ..found }
}
