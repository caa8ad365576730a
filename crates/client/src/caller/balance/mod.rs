//! Which server is asked next. No I/O: the caller gives time and random numbers.

mod least_load;
mod outage;
mod round_robin;

use std::time::Duration;

use self::{least_load::Load, outage::Outage, round_robin::RoundRobin};

pub(super) use self::outage::Ticket;

/// How a caller chooses among its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The less loaded of two random servers, by what their answers report and what this caller asks them just now.
    LeastLoad,
}

/// Servers of which some are left out.
#[derive(Debug)]
pub(super) struct Balancer {
    balance: Balance,
    round_robin: RoundRobin,
    servers: Vec<State>,
}

#[derive(Debug)]
struct State {
    weight: u16,
    load: Load,
    outage: Outage,
}

/// How a question has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The server has answered, and may have reported its load.
    Answered(Option<u64>),
    /// The server has failed.
    Failed,
    /// Nobody waits for the answer any more.
    Abandoned,
}

impl Balancer {
    pub(super) fn new(weights: &[u16], balance: Balance) -> Self {
        let weights = || weights.iter().map(|weight| (*weight).max(1));
        let state = |weight| State { weight, load: Load::default(), outage: Outage::default() };
        Self { balance, round_robin: RoundRobin::new(weights()), servers: weights().map(state).collect() }
    }

    /// Begins a question to a server that is not left out, and that this request has not asked. `asked` has a bit for each
    /// server.
    pub(super) fn begin(&mut self, now: Duration, asked: u64, random: [u64; 2]) -> Option<(usize, Ticket)> {
        let Self { balance, round_robin, servers } = self;
        let is_open = |number: usize| {
            let is_asked = u32::try_from(number).is_ok_and(|number| asked.checked_shr(number).unwrap_or(1) & 1 == 1);
            !is_asked && servers.get(number).is_some_and(|server| server.outage.is_open(now))
        };
        let number = match balance {
            Balance::RoundRobin => round_robin.next(is_open),
            Balance::LeastLoad => {
                let open = servers.iter().enumerate().filter(|(number, _)| is_open(*number));
                let open: Vec<_> = open.map(|(number, it)| (number, it.weight, it.load.now(now))).collect();
                least_load::choose(&open, random)
            }
        }?;
        let server = servers.get_mut(number)?;
        server.load.begin();
        Some((number, server.outage.begin()))
    }

    /// Ends a question.
    pub(super) fn end(&mut self, number: usize, ticket: Ticket, end: End, now: Duration, random: u64) {
        let Some(State { load, outage, .. }) = self.servers.get_mut(number) else { return };
        load.end(if let End::Answered(report) = end { report } else { None }, now);
        match end {
            End::Answered(_) => outage.succeed(ticket),
            End::Failed => outage.fail(ticket, now, random),
            End::Abandoned => outage.abandon(ticket),
        }
    }
}

#[cfg(test)]
mod tests;
