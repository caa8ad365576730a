//! Which clients may be stopped, beside a list of all requests.

mod addresses;
mod models;

use std::net::IpAddr;

use ratelimit_common::limits::limit::SECOND;
use ratelimit_limiter::{Algorithm, Limit, Rate, Rule};

use super::{
    history::{CLIENTS, HALF, History, KNOWN, REFUSED},
    table::ADDRESSES,
    *,
};

/// A time at which a half begins.
const BEGIN: u64 = 1_000 * HALF;

fn rule(by: &[&str]) -> Rule {
    let limit = Limit::new(Rate { amount: 3, period: 60 * SECOND }, None, Algorithm::TokenBucket).unwrap();
    Rule::new("test", [limit]).unwrap().by(by.iter().copied()).with_stop(true)
}

impl Finding {
    /// Returns whether it says that the client may be stopped.
    fn may_stop(self) -> bool {
        self == Self::Alone
    }
}

/// A time in which a client can be refused often enough.
const LONG: u64 = 2 * KNOWN;

/// Returns whether a client may be stopped after so many refused requests, if others have asked so often before.
fn may_stop(refused: u64, others: &[u64]) -> bool {
    let mut history = History::new(BEGIN);
    for (client, count) in (2..).zip(others) {
        (0..*count).for_each(|number| assert!(!history.note(Some(client), false, BEGIN + number).may_stop()));
    }
    let own = (0..refused).map(|number| history.note(Some(1), true, BEGIN + (number + 1) * LONG / refused).may_stop());
    own.last().unwrap()
}

#[test]
fn a_client_alone_may_be_stopped_once_it_goes_on_and_its_address_is_known() {
    let mut history = History::new(BEGIN);
    // It comes at once, and nobody else had time to be seen.
    assert!((0..1_000).all(|number| !history.note(Some(1), true, BEGIN + number).may_stop()));
    for second in 1..=9 {
        assert!(!history.note(Some(1), true, BEGIN + second * SECOND).may_stop());
    }
    assert!(!history.note(Some(1), true, BEGIN + KNOWN - 1).may_stop());
    assert!(history.note(Some(1), true, BEGIN + KNOWN).may_stop());
    // Not by a request that was allowed, nor another client.
    assert!(!history.note(Some(1), false, BEGIN + KNOWN).may_stop());
    assert!(!history.note(Some(2), true, BEGIN + KNOWN).may_stop());
    let mut slow = History::new(BEGIN);
    let asked =
        (0..u64::from(REFUSED)).map(|number| slow.note(Some(1), true, BEGIN + KNOWN + number * SECOND).may_stop());
    assert_eq!(asked.filter(|may_stop| *may_stop).count(), 1);
}

#[test]
fn refusals_within_a_second_count_once() {
    let mut history = History::new(BEGIN);
    // It asks for a hundred things at once, is refused, and waits for a while.
    for minute in 0..9 {
        for number in 0..100 {
            assert!(
                !history
                    .note(Some(1), true, BEGIN + KNOWN + minute * 6 * SECOND + number * SECOND / 100 - 1)
                    .may_stop()
            );
        }
    }
}

#[test]
fn a_batch_is_one_request() {
    let mut history = History::new(BEGIN);
    for second in 0..20 {
        let at = BEGIN + second * SECOND;
        (0..1_000).for_each(|_| assert!(!history.note(Some(1), true, at).may_stop()));
        assert!(!history.note(Some(2), false, at + 1).may_stop());
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
    let asks = |history: &mut History, now: u64| {
        (0..10).any(|second| history.note(Some(1), true, now + second * SECOND).may_stop())
    };
    assert!(!asks(&mut history, BEGIN + HALF));
    // Its own requests of before had no count of their own.
    assert!(!asks(&mut history, BEGIN + 2 * HALF));
    assert!(asks(&mut history, BEGIN + 3 * HALF));
    // After a long silence, the address is new again.
    assert!(!asks(&mut history, BEGIN + 9 * HALF));
    assert!(!history.note(Some(1), true, BEGIN + 9 * HALF + KNOWN - 1).may_stop());
    assert!(history.note(Some(1), true, BEGIN + 9 * HALF + KNOWN).may_stop());
}

#[test]
fn a_client_that_changes_its_name_is_not_stopped() {
    let mut history = History::new(BEGIN);
    let asks =
        (0..100_000).map(|number| history.note(Some(number % 7), true, BEGIN + KNOWN + number as u64).may_stop());
    assert_eq!(asks.filter(|may_stop| *may_stop).count(), 0);
}

#[test]
fn a_refusal_says_once_within_a_second_why_a_client_may_not_be_stopped() {
    use Finding::{Alone, Early, NotRefused, Repeated, Shared};
    let mut history = History::new(BEGIN);
    let mut note = |client, is_refused, now| history.note(client, is_refused, BEGIN + now);
    assert_eq!(
        [note(Some(1), false, 0), note(Some(1), true, 1), note(Some(1), true, 2)],
        [NotRefused, Early, Repeated]
    );
    assert_eq!([note(Some(2), true, 3), note(Some(1), true, SECOND + 1)], [Early, Early]);
    // Clients without a count of their own have one together.
    assert_eq!([note(Some(3), true, 4), note(Some(4), true, 5), note(Some(5), true, 6)], [Early, Shared, Repeated]);
    for second in 2..11 {
        note(Some(1), true, second * SECOND + 1);
    }
    assert_eq!([note(Some(1), true, 11 * SECOND + 1), note(Some(1), true, 11 * SECOND + 2)], [Shared, Repeated]);
    // Each request of a client that may be stopped says so.
    let mut alone = History::new(BEGIN);
    let found = (0..40).map(|half| alone.note(Some(1), true, BEGIN + half * SECOND / 2));
    assert_eq!(found.last(), Some(Alone));
}
