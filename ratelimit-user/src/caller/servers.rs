//! Asks one server after the other, until one of them decides.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::body::Bytes;

use super::{
    balance::{Balance, Balancer, End, Ticket},
    error::{CallerError, MOST_SERVERS, Undecided},
    options::Server,
    transport::{Kind, Read, Received, Transport},
};
use crate::wire::{BODY, random};

/// The servers of a caller.
#[derive(Debug)]
pub(super) struct Servers {
    transports: Vec<Transport>,
    balancer: Mutex<Balancer>,
    start: Instant,
}

/// A question to one server, which ends with this.
struct Question<'a> {
    servers: &'a Servers,
    number: usize,
    ticket: Ticket,
    end: End,
}

impl Servers {
    pub(super) fn new(servers: &[Server], balance: Balance, calls: usize) -> Result<Self, CallerError> {
        if !(1..=MOST_SERVERS).contains(&servers.len()) {
            return Err(CallerError::Servers(servers.len()));
        }
        let transports = servers.iter().map(|server| Transport::new(server, calls)).collect::<Result<_, _>>()?;
        let weights: Vec<_> = servers.iter().map(|server| server.weight).collect();
        Ok(Self { transports, balancer: Mutex::new(Balancer::new(&weights, balance)), start: Instant::now() })
    }

    /// Asks each server at most once. Every one has `each` for its answer, and all together have `total`.
    pub(super) async fn ask<A>(
        &self,
        kind: Kind,
        body: Bytes,
        read: Read<A>,
        each: Duration,
        total: Duration,
    ) -> Result<A, Undecided> {
        // A server would close the connection while it is sent, which looks like a failure.
        if body.len() > BODY {
            return Err(Undecided::Question(format!("a question has at most {BODY} bytes, not {}", body.len())));
        }
        let (begin, each) = (Instant::now(), each.min(total));
        let (mut asked, mut reason) = (0, Undecided::NoServer);
        loop {
            let time = each.min(total.saturating_sub(begin.elapsed()));
            if asked != 0 && time.is_zero() {
                return Err(reason);
            }
            let Some((mut question, transport)) = self.begin(asked) else { return Err(reason) };
            match transport.ask(kind, body.clone(), read, time).await {
                Ok(Received { answer, load }) => {
                    question.end = End::Answered(load);
                    return Ok(answer);
                }
                Err(error @ Undecided::Question(_)) => {
                    question.end = End::Answered(None);
                    return Err(error);
                }
                Err(error) => {
                    question.end = match &error {
                        // What this process has no time for is no failure of the server. If it were, a flood of questions
                        // could have all servers left out.
                        Undecided::Busy { .. } => End::Abandoned,
                        Undecided::Late { time, .. } if *time < each => End::Abandoned,
                        _ => End::Failed,
                    };
                    asked |= 1 << question.number;
                    reason = error;
                }
            }
        }
    }

    fn begin(&self, asked: u64) -> Option<(Question<'_>, &Transport)> {
        let mut balancer = self.balancer.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, ticket) = balancer.begin(self.start.elapsed(), asked, [random(), random()])?;
        let transport = self.transports.get(number)?;
        Some((Question { servers: self, number, ticket, end: End::Abandoned }, transport))
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let Self { servers, number, ticket, end } = self;
        let mut balancer = servers.balancer.lock().unwrap_or_else(PoisonError::into_inner);
        balancer.end(*number, *ticket, *end, servers.start.elapsed(), random());
    }
}
