//! Asks one server after the other, until one of them decides.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use ratelimit_base::jitter::random;

use super::{
    balance::{Balancer, End, Ticket},
    encryption::Authority,
    error::{CallerError, MOST_SERVERS, Undecided},
    options::{Options, Server},
    transport::{Kind, Read, Received, Transport},
};
use crate::wire::BODY;

/// The servers of a caller.
#[derive(Debug)]
pub(super) struct Servers {
    transports: Vec<Transport>,
    balancer: Mutex<Balancer>,
    /// The last failure, for questions that find all servers left out.
    failed: Mutex<Option<Undecided>>,
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
    pub(super) fn new(servers: &[Server], options: &Options) -> Result<Self, CallerError> {
        let Options { balance, calls, try_time, .. } = *options;
        if !(1..=MOST_SERVERS).contains(&servers.len()) {
            return Err(CallerError::Servers(servers.len()));
        }
        let servers = trusting(servers, Authority::of_system)?;
        // Another server can answer at once, so only a single one is worth waiting for.
        let wait = if servers.len() == 1 { try_time } else { Duration::ZERO };
        let transports = servers.iter().map(|server| Transport::new(server, calls, wait)).collect::<Result<_, _>>()?;
        let weights: Vec<_> = servers.iter().map(|server| server.weight).collect();
        let balancer = Mutex::new(Balancer::new(&weights, balance));
        Ok(Self { transports, balancer, failed: Mutex::default(), start: Instant::now() })
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
        let (mut asked, mut reason) = (0, None);
        loop {
            let time = each.min(total.saturating_sub(begin.elapsed()));
            if asked != 0 && time.is_zero() {
                return Err(reason.unwrap_or_else(|| self.no_server()));
            }
            let Some((mut question, transport)) = self.begin(asked) else {
                return Err(reason.unwrap_or_else(|| self.no_server()));
            };
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
                    if question.end == End::Failed {
                        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
                    }
                    asked |= 1 << question.number;
                    reason = Some(error);
                }
            }
        }
    }

    /// Returns the reason if all servers are left out.
    fn no_server(&self) -> Undecided {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Undecided::NoServer(failed.map(Box::new))
    }

    fn begin(&self, asked: u64) -> Option<(Question<'_>, &Transport)> {
        let mut balancer = self.balancer.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, ticket) = balancer.begin(self.start.elapsed(), asked, [random(), random()])?;
        let transport = self.transports.get(number)?;
        Some((Question { servers: self, number, ticket, end: End::Abandoned }, transport))
    }
}

/// Gives servers that prove themselves by no authority of their own those of the system, which are read once.
fn trusting(
    servers: &[Server],
    of_system: impl FnOnce() -> Result<Authority, CallerError>,
) -> Result<Vec<Server>, CallerError> {
    let needs = |server: &Server| server.address.is_encrypted() && server.authority.is_none();
    let system = servers.iter().any(needs).then(of_system).transpose()?;
    let each = |server: &Server| Server {
        authority: if needs(server) { system.clone() } else { server.authority.clone() },
        ..server.clone()
    };
    Ok(servers.iter().map(each).collect())
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let Self { servers, number, ticket, end } = self;
        let mut balancer = servers.balancer.lock().unwrap_or_else(PoisonError::into_inner);
        balancer.end(*number, *ticket, *end, servers.start.elapsed(), random());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "tls")]
    #[test]
    fn the_authorities_of_the_system_are_read_once_and_only_for_servers_that_need_them() {
        let pem = rcgen::generate_simple_self_signed(["authority".to_owned()]).unwrap().cert.pem();
        let authority = Authority::of_pem(pem.as_bytes()).unwrap();
        let named = |address: &str| Server::new(address.parse().unwrap());
        let own = named("https://a.example").with_authority(authority.clone());
        let servers = [named("https://b.example"), own.clone(), named("unix:/run/a"), named("https://c.example")];
        // The type of the function says that it is called once.
        let trusting_all = trusting(&servers, || Ok(authority)).unwrap();
        let has = trusting_all.iter().map(|server| server.authority.is_some());
        assert_eq!(has.collect::<Vec<_>>(), [true, true, false, true]);
        assert!(trusting(&[own, named("unix:/run/a")], || Err(CallerError::NoAuthority)).is_ok());
        assert!(trusting(&servers, || Err(CallerError::NoAuthority)).is_err());
    }

    #[test]
    fn a_question_that_finds_all_servers_left_out_says_why_the_last_one_has_failed() {
        // A file that is no socket.
        let address = "unix:/dev/null".parse().unwrap();
        let servers = Servers::new(&[Server::new(address)], &Options::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ask = || {
            let time = Duration::from_secs(60);
            runtime.block_on(servers.ask::<()>(Kind::One, Bytes::new(), |_, _| None, time, time)).unwrap_err()
        };
        let first = ask();
        assert!(matches!(first, Undecided::Connect(_)), "{first:?}");
        // On a machine that is busy, the time for which it is left out can be over. Each time is longer.
        let mut second = ask();
        while second == first {
            second = ask();
        }
        assert_eq!(second, Undecided::NoServer(Some(Box::new(first.clone()))));
        assert_eq!(second.to_string(), format!("all servers are left out after failures: the last one: {first}"));
    }
}
