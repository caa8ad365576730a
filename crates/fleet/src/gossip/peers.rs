//! The other hosts: their addresses, and those that have proved that they are there.
//!
//! A host proves it by a datagram that names the session of its receiver. So what was recorded before a start of this
//! host is worth nothing. What was recorded since then has a number that is not new.
//!
//! The source address of a datagram has no seal, so anybody on the way can change it. A datagram therefore names the
//! address of its sender, and a host that is alive gets another address only by that name.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    net::{IpAddr, SocketAddr},
};

use super::{counts::Counts, datagram::Header};
use ratelimit_protocol::fleet::About;

/// The most hosts at a time.
pub(super) const MOST: usize = 256;
/// The most addresses.
const MOST_ADDRESSES: usize = 512;
/// Hosts that have gone, whose old datagrams are told from new ones.
const GONE: usize = 4_096;
/// Seconds without a datagram after which a host is not alive.
pub(super) const ALIVE: f64 = 3.0;
/// Seconds without a datagram after which a host is forgotten.
const KEPT: f64 = 30.0;
/// Seconds for which an address is tried that another host has told.
const TRIED: f64 = 60.0;
/// Seconds between two answers to unknown hosts at one address.
const ANSWERS: f64 = 0.1;

/// A host that has proved that it is there.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// Whether it has named this address.
    is_named: bool,
    /// The highest number of its datagrams.
    number: u64,
    /// When the last new one arrived, in seconds.
    pub(super) heard: f64,
    pub(super) weight: f64,
    /// What it says about itself.
    pub(super) id: String,
    pub(super) about: About,
    pub(super) counts: Counts,
}

impl Peer {
    fn new(header: &Header, address: SocketAddr, now: f64) -> Self {
        let (weight, counts) = (header.weight, Counts::of(header.births));
        let (id, about) = Default::default();
        Self { address, is_named: false, number: 0, heard: now, weight, id, about, counts }
    }

    /// Returns its name, or its id if it has none.
    pub(super) fn name(&self) -> &str {
        if self.about.name.is_empty() { &self.id } else { &self.about.name }
    }

    pub(super) fn is_alive(&self, now: f64) -> bool {
        now - self.heard < ALIVE
    }
}

/// An address of a host.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    is_configured: bool,
    /// The address of this host on the way to it, as the kernel tells. None if that is not known.
    local: Option<SocketAddr>,
    /// Whether a host that has proved that it is there has told it, or is there. An answer to a recorded datagram must
    /// not become many.
    is_tried: bool,
    answered: Option<f64>,
    /// Until when it counts as another address of a host that is alive. A stranger can pretend that too.
    other_until: f64,
    /// Until when it is known, if it is not configured.
    until: f64,
}

impl Known {
    /// Returns whether it is an address of this host. A stranger can send back what this host has sent, so that proves
    /// nothing.
    fn is_own(&self, address: SocketAddr) -> bool {
        self.local == Some(address)
    }
}

/// What a datagram means.
pub(super) enum Heard<'a> {
    /// It is no news.
    Nothing,
    /// It is of a host for which there is no room.
    Excess,
    /// This host should answer with a greeting for this session.
    Answer(u64),
    /// It is of a known host.
    Peer {
        peer: &'a mut Peer,
        /// Whether no later one has arrived before.
        is_new: bool,
        /// Whether it is the first one.
        is_first: bool,
    },
}

/// The other hosts.
#[derive(Debug)]
pub(super) struct Peers {
    session: u64,
    addresses: HashMap<SocketAddr, Known>,
    peers: HashMap<u64, Peer>,
    /// The highest numbers of hosts that have gone, and the order in which they went.
    gone: HashMap<u64, u64>,
    order: VecDeque<u64>,
}

impl Peers {
    /// Begins with the session of this host.
    pub(super) fn new(session: u64) -> Self {
        let (addresses, peers, gone) = Default::default();
        Self { session, addresses, peers, gone, order: VecDeque::new() }
    }

    /// Takes the addresses of the file in place of earlier ones.
    pub(super) fn configure(&mut self, addresses: &HashSet<SocketAddr>) {
        for (address, known) in &mut self.addresses {
            known.is_configured = addresses.contains(address);
        }
        for address in addresses.iter().take(MOST_ADDRESSES) {
            self.addresses.entry(*address).or_default().is_configured = true;
        }
    }

    /// Takes an address that another host has told.
    pub(super) fn learn(&mut self, address: SocketAddr, teller: SocketAddr, now: f64) {
        let ip = address.ip();
        let is_broadcast = matches!(ip, std::net::IpAddr::V4(ip) if ip.is_broadcast());
        let is_odd = ip.is_unspecified() || ip.is_multicast() || is_broadcast || address.port() == 0;
        // Another machine has another idea of its own addresses.
        if is_odd || ip.is_loopback() != teller.ip().is_loopback() {
            return;
        }
        if self.addresses.len() < MOST_ADDRESSES {
            // An address that is known already is tried for no longer than before.
            let new = Known { until: now + TRIED, is_tried: true, ..Known::default() };
            self.addresses.entry(address).or_insert(new);
        }
    }

    /// Takes the header of a datagram with a good seal.
    pub(super) fn hear(&mut self, header: &Header, address: SocketAddr, now: f64) -> Heard<'_> {
        if header.from == self.session {
            return Heard::Nothing;
        }
        if header.to != self.session {
            return self.stranger(header, address, now);
        }
        let is_named = header.at == address;
        let is_first = !self.peers.contains_key(&header.from);
        if is_first && self.gone.get(&header.from).is_some_and(|number| header.number <= *number) {
            return Heard::Nothing;
        }
        // A host that has started again replaces itself.
        let has_named = self.peers.get(&header.from).is_some_and(|peer| peer.is_named);
        let before = if is_first || is_named && !has_named {
            let is_before = |session: u64, peer: &Peer| {
                session != header.from && peer.address == address && (is_named || !peer.is_alive(now))
            };
            self.peers.iter().map(|(session, peer)| (*session, peer)).find(|(session, peer)| is_before(*session, peer))
        } else {
            None
        };
        let before = before.map(|(session, _)| session);
        if is_first && before.is_none() && self.peers.len() >= MOST {
            return Heard::Excess;
        }
        if let Some(session) = before {
            self.forget(session);
        }
        let peer = self.peers.entry(header.from).or_insert_with(|| Peer::new(header, address, now));
        let is_new = header.number > peer.number;
        if is_new {
            let was_alive = peer.is_alive(now);
            if !was_alive {
                // What it has admitted on its own does not count against the sources.
                peer.counts = Counts::of(header.births);
            }
            if is_named || !was_alive {
                (peer.address, peer.is_named) = (address, is_named);
            }
            (peer.number, peer.heard, peer.weight) = (header.number, now, header.weight);
            let address = peer.address;
            if self.addresses.len() < MOST_ADDRESSES || self.addresses.contains_key(&address) {
                let known = self.addresses.entry(address).or_default();
                (known.is_tried, known.until) = (true, now + TRIED);
            }
        }
        Heard::Peer { peer, is_new, is_first }
    }

    /// Takes a greeting of a host that does not know this one yet.
    fn stranger(&mut self, header: &Header, address: SocketAddr, now: f64) -> Heard<'_> {
        if let Some(peer) = self.peers.get(&header.from).filter(|peer| peer.is_alive(now)) {
            // It may have several addresses, of which this is another one.
            if header.at == address && header.number > peer.number {
                self.addresses.entry(address).and_modify(|known| known.other_until = now + ALIVE);
            }
            return Heard::Nothing;
        }
        // An answer goes to no address that a recorded greeting gets on the way.
        let is_place = header.at == address || header.at.port() == 0 || self.is_configured(&address);
        if !is_place || self.addresses.len() >= MOST_ADDRESSES && !self.addresses.contains_key(&address) {
            return Heard::Nothing;
        }
        let known = self.addresses.entry(address).or_insert(Known { until: now + ALIVE, ..Known::default() });
        if known.answered.is_some_and(|answered| now - answered < ANSWERS) {
            return Heard::Nothing;
        }
        known.answered = Some(now);
        Heard::Answer(header.from)
    }

    /// Forgets a host.
    pub(super) fn forget(&mut self, session: u64) {
        let Some(peer) = self.peers.remove(&session) else { return };
        self.gone.insert(session, peer.number);
        self.order.push_back(session);
        if self.order.len() > GONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }

    /// Forgets what has been silent for long, and counts from before a time.
    pub(super) fn sweep(&mut self, since: f64, now: f64) {
        let silent: Vec<_> =
            self.peers.iter().filter(|(_, peer)| now - peer.heard >= KEPT).map(|(session, _)| *session).collect();
        silent.into_iter().for_each(|session| self.forget(session));
        self.peers.values_mut().for_each(|peer| peer.counts.forget(since));
        self.addresses.retain(|_, known| known.is_configured || now < known.until);
    }

    /// Returns where to greet, with the session of the host there. It is 0 if that is not known.
    pub(super) fn targets(&self, now: f64) -> Vec<(SocketAddr, u64)> {
        let alive = self.alive(now).map(|(session, peer)| (peer.address, *session));
        let mut targets: Vec<_> = alive.collect();
        let reached: HashSet<_> = targets.iter().map(|(address, _)| *address).collect();
        // It greets other addresses of hosts too, so that it goes on to know them.
        let others = self.addresses.iter().filter(|(address, known)| {
            let is_wanted = (known.is_configured || known.is_tried) && !known.is_own(**address);
            is_wanted && !reached.contains(*address)
        });
        targets.extend(others.map(|(address, _)| (*address, 0)));
        targets
    }

    /// Returns the hosts that are alive, with their sessions.
    pub(super) fn alive(&self, now: f64) -> impl Iterator<Item = (&u64, &Peer)> {
        self.peers.iter().filter(move |(_, peer)| peer.is_alive(now))
    }

    /// Returns the hosts that are alive and have named their address, or have one of the file, with their sessions. Others
    /// get greetings, but no counts: somebody on the way may have changed their address.
    pub(super) fn proved(&self, now: f64) -> impl Iterator<Item = (&u64, &Peer)> {
        self.alive(now).filter(|(_, peer)| peer.is_named || self.is_configured(&peer.address))
    }

    fn is_configured(&self, address: &SocketAddr) -> bool {
        self.addresses.get(address).is_some_and(|known| known.is_configured)
    }

    /// Returns all hosts that are not forgotten.
    pub(super) fn all(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    /// Returns how many other hosts there are: those of the file, and those that were heard.
    pub(super) fn count(&self, now: f64) -> usize {
        let heard: HashSet<_> = self.peers.values().map(|peer| peer.address).collect();
        let is_heard = |address, known: &Known| heard.contains(address) || now < known.other_until;
        self.peers.len() + self.configured().filter(|(address, known)| !is_heard(*address, known)).count()
    }

    /// Returns where the other hosts are: those of the file, and those that are alive.
    pub(super) fn places(&self, now: f64) -> Vec<IpAddr> {
        let configured = self.configured().map(|(address, _)| address.ip());
        configured.chain(self.alive(now).map(|(_, peer)| peer.address.ip())).collect()
    }

    /// Returns the addresses of the file, without those of this host.
    fn configured(&self) -> impl Iterator<Item = (&SocketAddr, &Known)> {
        self.addresses.iter().filter(|(address, known)| known.is_configured && !known.is_own(**address))
    }

    /// Finds the address of this host on the way to each other one.
    pub(super) fn locate(&mut self, local: impl Fn(SocketAddr) -> Option<SocketAddr>) {
        self.addresses.iter_mut().for_each(|(address, known)| known.local = local(*address));
    }

    /// Returns the address of this host on the way to another one.
    pub(super) fn local(&self, address: &SocketAddr) -> Option<SocketAddr> {
        self.addresses.get(address).and_then(|known| known.local)
    }

    /// Returns whether the file names other hosts.
    pub(super) fn has_configured(&self) -> bool {
        self.configured().next().is_some()
    }
}

#[cfg(test)]
mod tests;
