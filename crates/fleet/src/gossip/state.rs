//! All that a host knows of its fleet, without sockets and clocks.
//!
//! Each host sends its counts to each other one. They are cumulative, so the next report repairs what was lost.

use std::{
    collections::HashSet,
    net::{Ipv6Addr, SocketAddr},
};

use ratelimit_base::text::excerpt::excerpt;
use ratelimit_common::fleet::share::{Answer, Terms};
use serde::{Deserialize, Serialize};

use super::{
    counts::Merged,
    datagram::{ADDRESSES, Header, Hello, Kind, RECORDS, SAYS, Told},
    message::Message,
    peers::{Heard, Peer, Peers},
    replica::Replica,
    seal::Secret,
};
use crate::{error::Error, members::Hosts};
use ratelimit_protocol::fleet::{About, Member};

/// The most records of one other host.
const RECORDS_OF_ONE: usize = 10_000;
/// The most records of all other hosts: about 12 MB.
const RECORDS_OF_ALL: usize = 100_000;
/// The most datagrams of one report. What does not fit goes with a later one.
const DATAGRAMS: usize = 4_096;
/// Seconds, and periods, after which a count of another host is forgotten.
const SILENT: [f64; 2] = [30.0, 10.0];
/// Seconds for which a silent host counts, as with a server. So hosts that lose each other know how many they were.
const RECENT: f64 = 10.0;
/// The most hosts to show.
const SHOWN: usize = 64;

/// Returns the address of this host on the way to another one. None if the kernel does not tell.
pub(super) type Local<'a> = &'a dyn Fn(SocketAddr) -> Option<SocketAddr>;
/// Sends a datagram.
pub(super) type Send<'a> = &'a mut dyn FnMut(SocketAddr, &[u8]);

/// All that a host knows of its fleet.
pub(super) struct State {
    secret: Secret,
    session: u64,
    number: u64,
    id: String,
    about: About,
    terms: Terms,
    pub(super) peers: Peers,
    pub(super) replica: Replica,
    /// Records of other hosts.
    records: usize,
    /// Who has reported more than fits since the last report.
    excess: Option<String>,
    /// Whether datagrams with another password have arrived.
    is_refused: bool,
}

/// What a host says about itself.
#[derive(Serialize, Deserialize)]
struct Says {
    id: String,
    #[serde(flatten)]
    about: About,
}

impl State {
    /// Begins with two random numbers.
    pub(super) fn new(secret: Secret, session: u64, record: u32) -> Self {
        let session = session.max(1);
        Self {
            secret,
            session,
            number: 0,
            id: String::new(),
            about: About { weight: 1.0, ..About::default() },
            terms: Terms::default(),
            peers: Peers::new(session),
            replica: Replica::new(u64::from(record)),
            records: 0,
            excess: None,
            is_refused: false,
        }
    }

    /// Takes a datagram.
    pub(super) fn receive(&mut self, bytes: &[u8], from: SocketAddr, now: f64, send: Send<'_>) {
        // The seal takes the most time, so nothing else is read from strangers who do not know the session.
        let is_for_us = |header: &Header| header.to == self.session || header.to == 0 && header.kind == Kind::Hello;
        if !Header::read(bytes).is_some_and(|(header, _)| is_for_us(&header)) {
            return;
        }
        let Some(text) = self.secret.open(bytes) else {
            self.is_refused = true;
            return;
        };
        let Some((header, body)) = Header::read(text) else { return };
        let (peer, is_new, is_first) = match self.peers.hear(&header, from, now) {
            Heard::Nothing => return,
            Heard::Excess => return self.excess = Some(from.to_string()),
            Heard::Answer(session) => return self.greet(from, session, now, send),
            Heard::Peer { peer, is_new, is_first } => (peer, is_new, is_first),
        };
        match header.kind {
            Kind::Counts => {
                let Some(all) = Told::read_all(body) else { return };
                let before = peer.counts.len();
                for told in &all {
                    let count = peer.counts.len();
                    let has_room = count < RECORDS_OF_ONE && self.records + count - before < RECORDS_OF_ALL;
                    match peer.counts.merge(told, is_new, has_room, now) {
                        Merged::Grown(grown) => self.replica.hear(told, &grown, header.weight, &self.terms, now),
                        Merged::Full => self.excess = Some(peer.name().to_owned()),
                        Merged::Nothing => {}
                    }
                }
                self.records += peer.counts.len() - before;
            }
            Kind::Hello if is_new => {
                let Some(hello) = Hello::read(body) else { return };
                if let Ok(Says { id, about }) = serde_json::from_str(&hello.says) {
                    (peer.id, peer.about) = (excerpt(&id), about.escaped());
                    peer.about.weight = header.weight;
                }
                hello.addresses.iter().for_each(|address| self.peers.learn(*address, from, now));
                if is_first {
                    self.greet(from, header.from, now, send);
                }
            }
            Kind::Leave if is_new => self.forget(header.from),
            Kind::Hello | Kind::Leave => {}
        }
    }

    /// Takes reports of this host, tells them to all hosts that are alive, and returns the answers.
    pub(super) fn report(
        &mut self,
        terms: &Terms,
        messages: &[Message],
        now: f64,
        send: Send<'_>,
    ) -> (Vec<Option<Answer>>, Option<Error>) {
        self.terms = *terms;
        let mut told = Vec::with_capacity(messages.len());
        let Self { peers, replica, secret, .. } = self;
        let answers = messages.iter().map(|message| {
            let others = |name: &_| {
                let entry = |peer: &Peer| peer.counts.get(name).map(|entry| (peer.weight, *entry));
                peers.alive(now).filter_map(|(_, peer)| entry(peer)).collect()
            };
            let (answer, tell) = replica.report(secret, message, terms, others, now)?;
            told.push(tell);
            Some(answer)
        });
        let answers: Vec<_> = answers.collect();
        self.tell(&told, now, send);
        let mut excess = self.excess.take();
        if answers.iter().any(Option::is_none) {
            excess = Some("this host".to_owned());
        }
        (answers, excess.map(Error::Excess))
    }

    fn tell(&mut self, told: &[Told], now: f64, send: Send<'_>) {
        let mut bodies: Vec<_> = told.chunks(RECORDS).collect();
        if bodies.is_empty() {
            return;
        }
        let peers: Vec<_> = self.peers.proved(now).map(|(session, peer)| (peer.address, *session)).collect();
        // Those that do not fit change from report to report.
        let begin = self.number as usize % bodies.len();
        bodies.rotate_left(begin);
        for (address, session) in &peers {
            for body in bodies.iter().take(DATAGRAMS.div_ceil(peers.len())) {
                let mut datagram = self.begin(Kind::Counts, *session, address);
                body.iter().for_each(|told| told.write(&mut datagram));
                self.end(datagram, *address, send);
            }
        }
    }

    /// Greets all hosts, and forgets what means nothing any more. `local` tells the address of this host on the way to
    /// another one.
    pub(super) fn tick(&mut self, now: f64, local: Local<'_>, send: Send<'_>) {
        let [seconds, periods] = SILENT;
        self.peers.sweep(now - (seconds + periods * self.terms.period), now);
        self.replica.forget(&self.terms, now);
        self.records = self.peers.all().map(|peer| peer.counts.len()).sum();
        self.peers.locate(local);
        for (address, session) in self.peers.targets(now) {
            self.greet(address, session, now, send);
        }
    }

    /// Tells all hosts that this one goes.
    pub(super) fn leave(&mut self, now: f64, send: Send<'_>) {
        let peers: Vec<_> = self.peers.alive(now).map(|(session, peer)| (peer.address, *session)).collect();
        for (address, session) in peers {
            let datagram = self.begin(Kind::Leave, session, &address);
            self.end(datagram, address, send);
        }
    }

    /// Takes what this host says about itself, and returns all hosts.
    ///
    /// # Errors
    ///
    /// [`Error::Alone`] if the file names other hosts, and none is alive.
    pub(super) fn beat(&mut self, id: &str, about: &About, now: f64) -> Result<Hosts, Error> {
        id.clone_into(&mut self.id);
        self.about.clone_from(about);
        if !self.has_company(now) {
            return Err(Error::Alone { is_refused: std::mem::take(&mut self.is_refused) });
        }
        let own = Member { id: id.to_owned(), silent_seconds: 0.0, about: about.clone() };
        let member = |peer: &Peer| {
            let (id, silent_seconds, about) = (peer.id.clone(), now - peer.heard, peer.about.clone());
            Member { id, silent_seconds, about }
        };
        let mut members = vec![own];
        let recent = || self.peers.all().filter(|peer| now - peer.heard < RECENT);
        // Some may not have said yet who they are.
        members.extend(recent().filter(|peer| !peer.id.is_empty()).map(member));
        members[1..].sort_by(|a, b| a.name().cmp(b.name()));
        let count = 1 + recent().count();
        members.truncate(SHOWN);
        Ok(Hosts { count, members })
    }

    /// Returns whether this host may share limits: another one is alive, or the file names none.
    pub(super) fn has_company(&self, now: f64) -> bool {
        self.peers.alive(now).next().is_some() || !self.peers.has_configured()
    }

    /// Takes the addresses of the file in place of earlier ones.
    pub(super) fn configure(&mut self, addresses: &HashSet<SocketAddr>) {
        self.peers.configure(addresses);
    }

    fn forget(&mut self, session: u64) {
        self.peers.forget(session);
        self.records = self.peers.all().map(|peer| peer.counts.len()).sum();
    }

    fn greet(&mut self, address: SocketAddr, session: u64, now: f64, send: Send<'_>) {
        let says = Says { id: self.id.clone(), about: self.about.clone() };
        let says = serde_json::to_string(&says).ok().filter(|says| says.len() <= SAYS).unwrap_or_default();
        // Other addresses each time, as not all of them may fit. Strangers learn none.
        let is_known = self.peers.alive(now).any(|(known, _)| *known == session);
        let alive = self.peers.alive(now).filter(|_| is_known).map(|(_, peer)| peer.address);
        let alive: Vec<_> = alive.collect();
        let begin = self.number as usize % alive.len().max(1);
        let addresses = alive.iter().cycle().skip(begin).take(alive.len().min(ADDRESSES)).copied();
        let hello = Hello { says, addresses: addresses.collect() };
        let mut datagram = self.begin(Kind::Hello, session, &address);
        hello.write(&mut datagram);
        self.end(datagram, address, send);
    }

    fn begin(&mut self, kind: Kind, to: u64, address: &SocketAddr) -> Vec<u8> {
        self.number += 1;
        let at = self.peers.local(address).unwrap_or((Ipv6Addr::UNSPECIFIED, 0).into());
        let (births, weight) = (self.replica.births(), self.about.weight.clamp(0.01, 100.0));
        Header { kind, from: self.session, to, number: self.number, births, weight, at }.write()
    }

    fn end(&self, mut datagram: Vec<u8>, address: SocketAddr, send: Send<'_>) {
        self.secret.close(&mut datagram);
        send(address, &datagram);
    }
}

#[cfg(test)]
mod tests;
