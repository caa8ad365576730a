//! Hosts without sockets: how they find each other, what they share, and what strangers can do.

mod hostile;
mod shares;

use ratelimit_common::fleet::share::{Limit, Report};

use super::*;
use crate::key::Key;

const LIMIT: Limit = Limit { rate: 1_000.0, burst: 100.0 };
const SECRET: &str = "a secret of this fleet";

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8], 7947))
}

fn state(host: usize) -> State {
    State::new(Secret::new(SECRET), 100 + host as u64, 0)
}

/// Hosts, and a network that delivers as `way` says: how often each datagram arrives.
struct Network<'a> {
    hosts: Vec<State>,
    way: &'a mut dyn FnMut(usize, usize) -> usize,
    /// Datagrams under way: from, to, and what.
    sent: Vec<(usize, usize, Vec<u8>)>,
    datagrams: usize,
    bytes: usize,
}

impl<'a> Network<'a> {
    fn new(count: usize, way: &'a mut dyn FnMut(usize, usize) -> usize) -> Self {
        let hosts = (0..count).map(state).collect();
        let mut network = Self { hosts, way, sent: Vec::new(), datagrams: 0, bytes: 0 };
        let all: HashSet<_> = (0..count).map(address).collect();
        network.hosts.iter_mut().for_each(|host| host.configure(&all));
        network
    }

    /// Calls `work` with a host, and delivers all that follows from it.
    fn with<T>(&mut self, host: usize, now: f64, work: impl FnOnce(&mut State, Send<'_>) -> T) -> T {
        let result = self.collect(host, work);
        while let Some((from, to, datagram)) = self.sent.pop() {
            for _ in 0..(self.way)(from, to) {
                (self.datagrams, self.bytes) = (self.datagrams + 1, self.bytes + datagram.len());
                self.collect(to, |state, send| state.receive(&datagram, address(from), now, send));
            }
        }
        result
    }

    fn collect<T>(&mut self, host: usize, work: impl FnOnce(&mut State, Send<'_>) -> T) -> T {
        let (hosts, count) = (&mut self.hosts, 256);
        let sent = &mut self.sent;
        let mut send = |to: SocketAddr, datagram: &[u8]| {
            if let Some(to) = (0..count).find(|host| address(*host) == to) {
                sent.push((host, to, datagram.to_vec()));
            }
        };
        work(&mut hosts[host], &mut send)
    }

    fn tick(&mut self, now: f64) {
        for host in 0..self.hosts.len() {
            self.with(host, now, |state, send| state.tick(now, &|_| Some(address(host)), send));
        }
    }

    fn alive(&self, host: usize, now: f64) -> usize {
        self.hosts[host].peers.alive(now).count()
    }
}

fn message(source: usize, offered: f64, admitted: f64, own: f64, record: u64) -> Message {
    let report = Report { offered, admitted, own, weight: 1.0, record };
    Message { key: Key::of(&source.to_string(), &LIMIT), limit: LIMIT, report }
}

#[test]
fn hosts_find_each_other_and_tell_who_they_are() {
    let mut way = |_: usize, _: usize| 1;
    let mut network = Network::new(3, &mut way);
    for (number, host) in network.hosts.iter_mut().enumerate() {
        let about = About { name: format!("host{number}"), weight: 2.0, ..About::default() };
        assert!(matches!(host.beat(&format!("id{number}"), &about, 0.0), Err(Error::Alone { is_refused: false })));
    }
    network.tick(0.0);
    network.tick(0.5);
    let hosts = network.hosts[1].beat("id1", &About::default(), 0.5).unwrap();
    let names: Vec<_> = hosts.members.iter().map(|member| member.id.as_str()).collect();
    assert_eq!((hosts.count, names), (3, vec!["id1", "id0", "id2"]));
    assert_eq!((hosts.members[1].about.name.as_str(), hosts.members[1].about.weight), ("host0", 2.0));
    // One goes.
    network.with(2, 0.6, |state, send| state.leave(0.6, send));
    assert_eq!((network.alive(0, 0.6), network.alive(1, 0.6)), (1, 1));
}

#[test]
fn a_host_is_found_by_one_that_knows_only_a_third() {
    let mut way = |_: usize, _: usize| 1;
    let mut network = Network::new(3, &mut way);
    for (host, known) in [(0, vec![]), (1, vec![0]), (2, vec![0])] {
        let known: HashSet<_> = known.into_iter().map(address).collect();
        network.hosts[host].peers = Peers::new(100 + host as u64);
        network.hosts[host].configure(&known);
    }
    (0..6).for_each(|half| network.tick(f64::from(half) / 2.0));
    assert_eq!([0, 1, 2].map(|host| network.alive(host, 2.5)), [2, 2, 2]);
}

#[test]
fn a_host_that_was_cut_off_comes_back() {
    let cut = std::cell::Cell::new(false);
    let mut way = |from: usize, to: usize| usize::from(!(cut.get() && (from == 2 || to == 2)));
    let mut network = Network::new(3, &mut way);
    network.tick(0.0);
    network.tick(0.5);
    assert_eq!(network.alive(2, 0.5), 2);
    cut.set(true);
    (2..200).for_each(|half| network.tick(f64::from(half) / 2.0));
    assert_eq!([0, 2].map(|host| network.alive(host, 100.0)), [1, 0]);
    assert!(network.hosts[2].beat("", &About::default(), 100.0).is_err());
    cut.set(false);
    network.tick(100.0);
    network.tick(100.5);
    assert_eq!([0, 2].map(|host| network.alive(host, 100.5)), [2, 2]);
}

#[test]
fn a_host_without_others_in_its_file_is_no_failure() {
    let mut way = |_: usize, _: usize| 1;
    let mut network = Network::new(1, &mut way);
    // The file names this host itself.
    network.tick(0.0);
    assert_eq!(network.hosts[0].beat("id", &About::default(), 0.0).map(|hosts| hosts.count).ok(), Some(1));
}
