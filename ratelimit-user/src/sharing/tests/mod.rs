//! Which clients may be stopped, beside a list of all requests.

mod addresses;
mod models;

use std::net::IpAddr;

use ratelimit_common::limits::limit::SECOND;

use super::{
    history::{CLIENTS, HALF, History, KNOWN, REFUSED},
    table::ADDRESSES,
    *,
};
use crate::check::{Algorithm, Limit, Rate, Rule};

/// A time at which a half begins.
const BEGIN: u64 = 1_000 * HALF;

fn rule(by: &[&str]) -> Rule {
    let limit = Limit::new(Rate { amount: 3, period: 60 * SECOND }, None, Algorithm::TokenBucket).unwrap();
    Rule::new("test", [limit]).unwrap().by(by.iter().copied()).with_stop(true)
}

/// A time in which a client can be refused often enough.
const LONG: u64 = 2 * KNOWN;

/// Returns whether a client may be stopped after so many refused requests, if others have asked so often before.
fn may_stop(refused: u64, others: &[u64]) -> bool {
    let mut history = History::new(BEGIN);
    for (client, count) in (2..).zip(others) {
        (0..*count).for_each(|number| assert!(!history.note(Some(client), false, BEGIN + number)));
    }
    let own = (0..refused).map(|number| history.note(Some(1), true, BEGIN + (number + 1) * LONG / refused));
    own.last().unwrap()
}

#[test]
fn a_client_alone_may_be_stopped_once_it_goes_on_and_its_address_is_known() {
    let mut history = History::new(BEGIN);
    // It comes at once, and nobody else had time to be seen.
    assert!((0..1_000).all(|number| !history.note(Some(1), true, BEGIN + number)));
    for second in 1..=9 {
        assert!(!history.note(Some(1), true, BEGIN + second * SECOND));
    }
    assert!(!history.note(Some(1), true, BEGIN + KNOWN - 1));
    assert!(history.note(Some(1), true, BEGIN + KNOWN));
    // Not by a request that was allowed, nor another client.
    assert!(!history.note(Some(1), false, BEGIN + KNOWN));
    assert!(!history.note(Some(2), true, BEGIN + KNOWN));
    let mut slow = History::new(BEGIN);
    let asked = (0..u64::from(REFUSED)).map(|number| slow.note(Some(1), true, BEGIN + KNOWN + number * SECOND));
    assert_eq!(asked.filter(|may_stop| *may_stop).count(), 1);
}

#[test]
fn refusals_within_a_second_count_once() {
    let mut history = History::new(BEGIN);
    // It asks for a hundred things at once, is refused, and waits for a while.
    for minute in 0..9 {
        for number in 0..100 {
            assert!(!history.note(Some(1), true, BEGIN + KNOWN + minute * 6 * SECOND + number * SECOND / 100 - 1));
        }
    }
}

#[test]
fn a_batch_is_one_request() {
    let mut history = History::new(BEGIN);
    for second in 0..20 {
        let at = BEGIN + second * SECOND;
        (0..1_000).for_each(|_| assert!(!history.note(Some(1), true, at)));
        assert!(!history.note(Some(2), false, at + 1));
    }
}

#[test]
fn a_client_with_fewer_than_four_fifths_of_all_requests_may_not() {
    assert!(may_stop(80, &[20]));
    assert!(!may_stop(79, &[20]));
    assert!(may_stop(80, &[10, 10]));
    assert!(!may_stop(79, &[10, 10]));
}

#[test]
fn a_client_with_more_than_two_others_may_not_however_rare_these_are() {
    assert!(may_stop(10_000, &[1, 1]));
    assert!(!may_stop(10_000, &[1, 1, 1]));
    assert!(!may_stop(10_000, &[1; 50]));
}

#[test]
fn what_was_long_ago_does_not_count() {
    let mut history = History::new(BEGIN);
    for client in 2..12 {
        history.note(Some(client), false, BEGIN);
    }
    let asks =
        |history: &mut History, now: u64| (0..10).any(|second| history.note(Some(1), true, now + second * SECOND));
    assert!(!asks(&mut history, BEGIN + HALF));
    // Its own requests of before had no count of their own.
    assert!(!asks(&mut history, BEGIN + 2 * HALF));
    assert!(asks(&mut history, BEGIN + 3 * HALF));
    // After a long silence, the address is new again.
    assert!(!asks(&mut history, BEGIN + 9 * HALF));
    assert!(!history.note(Some(1), true, BEGIN + 9 * HALF + KNOWN - 1));
    assert!(history.note(Some(1), true, BEGIN + 9 * HALF + KNOWN));
}

#[test]
fn a_client_that_changes_its_name_is_not_stopped() {
    let mut history = History::new(BEGIN);
    let asks = (0..100_000).map(|number| history.note(Some(number % 7), true, BEGIN + KNOWN + number as u64));
    assert_eq!(asks.filter(|may_stop| *may_stop).count(), 0);
}
