//! Hosts and strangers that mean harm. Nothing panics, and memory is bounded.

use proptest::prelude::*;

use super::{super::super::datagram::MOST, *};

/// A state that knows one other host, and the numbers of that one.
fn victim() -> State {
    let mut state = state(0);
    let hello = sealed(SECRET, &header(Kind::Hello, 100, 1), &[0, 0]);
    state.receive(&hello, address(1), 0.0, &mut |_, _| {});
    assert_eq!(state.peers.alive(0.0).count(), 1);
    state
}

fn header(kind: Kind, to: u64, number: u64) -> Header {
    Header { kind, from: 7, to, number, births: 0, weight: 1.0, at: address(1) }
}

fn sealed(secret: &str, header: &Header, body: &[u8]) -> Vec<u8> {
    let mut datagram = header.write();
    datagram.extend(body);
    Secret::new(secret).close(&mut datagram);
    datagram
}

fn told(source: usize, offered: f64, admitted: f64) -> Told {
    let name = Secret::new(SECRET).name(&Key::of(&source.to_string(), &LIMIT));
    Told { name, birth: 1 + source as u32, offered, admitted, own: 1.0, level: -1e17 }
}

fn counts(state: &mut State, number: u64, all: &[Told]) {
    let mut body = Vec::new();
    all.iter().for_each(|told| told.write(&mut body));
    state.receive(&sealed(SECRET, &header(Kind::Counts, 100, number), &body), address(1), 0.0, &mut |_, _| {});
}

proptest! {
    #[test]
    fn whatever_arrives_nothing_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..1_300), kind in 0..3usize, to in 0..2u64, number: u64,
    ) {
        let mut state = victim();
        let kind = [Kind::Hello, Kind::Counts, Kind::Leave][kind];
        state.receive(&bytes, address(2), 0.0, &mut |_, _| {});
        state.receive(&sealed(SECRET, &header(kind, 100 * to, number), &bytes), address(2), 0.0, &mut |_, _| {});
        state.tick(1.0, &|_| None, &mut |_, datagram| assert!(datagram.len() <= MOST));
    }
}

#[test]
fn a_datagram_with_another_secret_changes_nothing_and_is_not_answered() {
    let mut state = state(0);
    let mut answers = 0;
    for to in [0, 100, 5] {
        let datagram = sealed("another secret", &header(Kind::Hello, to, 1), &[0, 0]);
        state.receive(&datagram, address(1), 0.0, &mut |_, _| answers += 1);
    }
    state.configure(&HashSet::from([address(1)]));
    assert_eq!((answers, state.peers.alive(0.0).count()), (0, 0));
    let error = state.beat("id", &About::default(), 0.0).unwrap_err();
    assert_eq!(error.to_string(), "no other host answers, and one has another password");
}

#[test]
fn counts_go_only_to_an_address_that_the_host_has_named_or_the_file_has() {
    let mut state = state(0);
    let counts = |state: &mut State| {
        let mut sent = Vec::new();
        state.report(&Terms::default(), &[message(0, 1.0, 1.0, 1.0, 0)], 0.0, &mut |to, _| sent.push(to));
        sent
    };
    let hear = |state: &mut State, number: u64, at: SocketAddr| {
        let header = Header { at, ..header(Kind::Hello, 100, number) };
        state.receive(&sealed(SECRET, &header, &[0, 0]), address(1), 0.0, &mut |_, _| {});
    };
    hear(&mut state, 1, address(9));
    assert_eq!((state.peers.alive(0.0).count(), counts(&mut state)), (1, vec![]));
    state.configure(&HashSet::from([address(1)]));
    assert_eq!(counts(&mut state), [address(1)]);
    state.configure(&HashSet::new());
    hear(&mut state, 2, address(1));
    assert_eq!(counts(&mut state), [address(1)]);
}

#[test]
fn a_million_records_take_bounded_memory_and_are_told_once() {
    let mut state = victim();
    let mut number = 1;
    for chunk in (0..1_000_000).collect::<Vec<_>>().chunks(RECORDS) {
        number += 1;
        let all: Vec<_> = chunk.iter().map(|source| told(*source, 1.0, 1.0)).collect();
        counts(&mut state, number, &all);
    }
    assert_eq!(state.records, RECORDS_OF_ONE);
    let mut report = || state.report(&Terms::default(), &[message(0, 1.0, 1.0, 1.0, 0)], 0.0, &mut |_, _| {}).1;
    assert!(matches!(report(), Some(Error::Excess(_))));
    assert!(report().is_none());
    // They go away again.
    state.tick(100.0, &|_| None, &mut |_, _| {});
    assert_eq!((state.records, state.peers.all().count()), (0, 0));
}

#[test]
fn many_hosts_together_take_bounded_memory() {
    let mut state = state(0);
    for host in 0..20u64 {
        let from = SocketAddr::from(([10, 1, 0, host as u8], 1));
        for (number, chunk) in (0..8_000).collect::<Vec<_>>().chunks(RECORDS).enumerate() {
            let mut body = Vec::new();
            chunk.iter().for_each(|source| told(*source, 1.0, 1.0).write(&mut body));
            let header = Header { from: 500 + host, ..header(Kind::Counts, 100, 1 + number as u64) };
            state.receive(&sealed(SECRET, &header, &body), from, 0.0, &mut |_, _| {});
        }
    }
    assert_eq!(state.records, RECORDS_OF_ALL);
}

#[test]
fn a_lie_slows_a_source_to_the_least_share_and_not_for_long() {
    let mut state = victim();
    let terms = Terms::default();
    let share = |state: &mut State, now: f64| {
        state.report(&terms, &[message(3, 200.0, 100.0, 600.0, 1)], now, &mut |_, _| {}).0[0].unwrap().share
    };
    share(&mut state, 0.0);
    counts(&mut state, 2, &[told(3, 1e17, 1e17)]);
    counts(&mut state, 3, &[told(3, 9e17, 9e17)]);
    assert_eq!(share(&mut state, 0.0), Some(terms.least));
    let last = (1..300).map(|period| share(&mut state, f64::from(period) * 0.2)).last().flatten().unwrap();
    assert!(last > 0.9, "{last}");
}

#[test]
fn a_host_without_room_in_a_greeting_says_nothing() {
    let mut state = victim();
    let about = About { name: "x".repeat(2_000), weight: f64::NAN, ..About::default() };
    state.beat("id", &about, 0.0).unwrap();
    state.tick(0.0, &|_| None, &mut |_, datagram| assert!(datagram.len() < 200));
}
