//! Decides about one request: its proof, whom it spares, and whether there is room.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::PoisonError,
    time::Duration,
};

use super::{
    counts::Shown,
    spared::{self, Host},
};
use crate::{
    controller::notify::journal::{Level, say},
    dataplane::{
        Error,
        instance::read_only::View,
        sys::{host, netlink::connection},
    },
    ssh,
    stops::{Answer, Book, Connection, Outcome, Place, Reason, Request, around},
    text::{prefix::Prefix, units},
};

/// How long the addresses of this host are known, and those of SSH clients.
const KNOWN: Duration = Duration::from_secs(5);
/// Requests in a second. Each asks the kernel several times.
const REQUESTS: u32 = 1_000;
/// A second.
const SECOND: Duration = Duration::from_secs(1);

/// Decides about requests.
pub(super) struct Judge {
    pins: PathBuf,
    pub(super) proxies: Vec<Prefix>,
    book: Book,
    /// The host and its SSH clients, as they were at this time.
    known: Option<(Duration, Host, Vec<IpAddr>)>,
    /// The beginning of a second, and the requests in it.
    asked: (Duration, u32),
    shown: Shown,
}

impl Judge {
    pub(super) fn of(pins: &Path, shown: Shown) -> Self {
        let asked = (Duration::ZERO, 0);
        Self { pins: pins.to_owned(), proxies: Vec::new(), book: Book::default(), known: None, asked, shown }
    }

    /// Decides about a line of a process of this user.
    pub(super) fn line(&mut self, line: &[u8], user: Option<u32>) -> Answer {
        let now = Duration::from_nanos(host::now());
        let answer = match Request::read(line) {
            Ok(request) => self.request(&request, user, now).unwrap_or_else(|answer| answer),
            Err(error) => refused(Reason::Bad, error),
        };
        self.count(&answer);
        answer
    }

    fn request(&mut self, request: &Request, user: Option<u32>, now: Duration) -> Result<Answer, Answer> {
        self.admit(now)?;
        let Connection { local, remote } = request.connection;
        if !connection::is_accepted(local, remote).map_err(unknown)? {
            let why = format!("this host has no connection that {remote} has opened to {local}");
            return Err(refused(Reason::NotEstablished, why));
        }
        let (address, port) = (remote.ip(), local.port());
        let own = Prefix::host(address);
        let (known, sessions) = self.known(now).map_err(unknown)?;
        let spares = |source| known.spares(source, &self.proxies, &sessions);
        if let Some(spared) = spares(own) {
            return Err(refused(Reason::Spared, spared));
        }
        let view = View::open(&self.pins).map_err(unknown)?;
        if let Some(rule) = spared::ruled(view.tables(), &own, port).map_err(unknown)? {
            return Err(refused(Reason::Ruled, rule));
        }
        let may_widen = around(address).is_some_and(|network| spares(network).is_none());
        self.book.ended(now);
        Ok(match self.book.ask(address, port, may_widen, now) {
            Outcome::New { place: Place { source, port }, end, times } => {
                let life = end.saturating_sub(now);
                say(Level::Info, &event(request, source, life, times, user));
                Answer::WouldStop { source: source.to_string(), port, seconds: life.as_secs(), times }
            }
            Outcome::InForce { place: Place { source, port }, end } => {
                let seconds = end.saturating_sub(now).as_secs();
                Answer::Already { source: source.to_string(), port, seconds }
            }
            Outcome::Refused(refusal) => refused(Reason::TooMany, refusal),
        })
    }

    /// Bounds the requests that ask the kernel.
    fn admit(&mut self, now: Duration) -> Result<(), Answer> {
        if now.saturating_sub(self.asked.0) >= SECOND {
            self.asked = (now, 0);
        }
        if self.asked.1 >= REQUESTS {
            return Err(refused(Reason::TooMany, format!("{REQUESTS} requests arrived within a second")));
        }
        self.asked.1 += 1;
        Ok(())
    }

    /// Returns the addresses that this host needs.
    fn known(&mut self, now: Duration) -> Result<(Host, Vec<IpAddr>), Error> {
        if let Some((at, host, sessions)) = &self.known
            && now.saturating_sub(*at) < KNOWN
        {
            return Ok((host.clone(), sessions.clone()));
        }
        let sessions = ssh::sessions().into_iter().chain(ssh::session()).map(|session| session.peer);
        let (host, sessions) = (Host::read()?, sessions.collect::<Vec<_>>());
        self.known = Some((now, host.clone(), sessions.clone()));
        Ok((host, sessions))
    }

    fn count(&self, answer: &Answer) {
        let mut counts = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Answer::Stopped { .. } => counts.stopped += 1,
            Answer::WouldStop { .. } => counts.would_stop += 1,
            Answer::Already { .. } => counts.already += 1,
            Answer::Refused { reason, .. } => *counts.refused.entry(*reason).or_default() += 1,
        }
        counts.in_force = self.book.in_force().len();
    }

    /// Counts what is in force at this time.
    pub(super) fn step(&mut self) {
        self.book.ended(Duration::from_nanos(host::now()));
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).in_force = self.book.in_force().len();
    }
}

fn refused(reason: Reason, why: impl ToString) -> Answer {
    Answer::Refused { reason, why: why.to_string() }
}

fn unknown(error: Error) -> Answer {
    refused(Reason::Unknown, error)
}

/// Returns the event of a limit: who, why, its proof and its end.
fn event(request: &Request, source: Prefix, life: Duration, times: u32, user: Option<u32>) -> String {
    let Connection { local, remote } = request.connection;
    let user = user.map_or_else(|| "an unknown user".to_owned(), |user| format!("user {user}"));
    let life = units::write_duration(life);
    format!(
        "{source} tcp/{}: would be limited for {life} (number {times}): client {} exceeds {}, as {user} says; \
         connection {remote} to {local} is established",
        local.port(),
        request.label(),
        request.rule,
    )
}
