//! Places of leases, and the marks in cells that lead to them.

use ratelimit_common::{
    cells::bucket_filter::{FIRST_EPOCH, LEASED},
    fleet::lease::WAYS,
    limits::limit::SECOND,
};
use ratelimit_dataplane::{leases::Grant, program::loader::Settings};
use ratelimit_tests::{Bytecode, per_second};

use super::{ADDRESS, FOREVER, START, grant, hash, load, load_with, passed};
use crate::front::Front;

/// A neighbour uses its bucket, so that the filters of their cell begin anew.
#[test]
fn a_renewed_lease_holds_in_each_epoch() {
    let settings = Settings { cells: 1, ..Settings::default() };
    let (mut bytecode, leases) = load_with(settings, &per_second(1_000, 100));
    let is_marked = |bytecode: &Bytecode| {
        let cell = bytecode.tables.front.open().unwrap().get(&0, 0).unwrap();
        cell.filters.iter().any(|filter| filter & LEASED != 0)
    };
    for epoch in FIRST_EPOCH..FIRST_EPOCH + 300 {
        let buckets = 1 << Settings::default().epoch_shift();
        bytecode.tables.created.open_mut().unwrap().set(0, epoch * buckets, 0).unwrap();
        let begin = START + epoch * SECOND;
        bytecode.set_time(begin);
        grant(&bytecode, &leases, ADDRESS, 0.001, FOREVER);
        passed(&mut bytecode, [192, 0, 2, 2], begin, begin + SECOND / 5);
        assert!(is_marked(&bytecode), "epoch {epoch}");
        grant(&bytecode, &leases, ADDRESS, 0.001, FOREVER);
        assert!(passed(&mut bytecode, ADDRESS, begin + SECOND / 5, begin + SECOND / 4) <= 1, "epoch {epoch}");
    }
    for epoch in [302, 303, 304] {
        let buckets = 1 << Settings::default().epoch_shift();
        bytecode.tables.created.open_mut().unwrap().set(0, epoch * buckets, 0).unwrap();
        let begin = START + epoch * SECOND;
        passed(&mut bytecode, [192, 0, 2, 2], begin, begin + SECOND / 5);
    }
    assert!(!is_marked(&bytecode), "the filters have not begun anew, so this test shows nothing");
}

#[test]
fn a_place_is_given_to_another_source_only_after_its_lease_has_ended() {
    let (bytecode, leases) = load(Front::On, &per_second(1_000, 100));
    let grant =
        |hash: u64, now: u64| leases.grant(&Grant { hash, share: 0.5, end: START + SECOND, states: [0; 2] }, now);
    // These hashes differ in bits that choose no place.
    let hashes: Vec<_> = (1..=u64::from(WAYS) + 1).map(|number| hash(&bytecode, ADDRESS) ^ number << 20).collect();
    let (last, others) = hashes.split_last().unwrap();
    assert!(others.iter().all(|hash| grant(*hash, START)));
    assert!(!grant(*last, START));
    assert!(grant(others[0], START));
    leases.end(others[1]);
    assert!(grant(*last, START));
    assert!(leases.get(others[1]).is_none() && leases.get(others[0]).is_some());
    assert!(grant(others[1], START + SECOND));
}
