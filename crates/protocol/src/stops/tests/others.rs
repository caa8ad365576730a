//! Limits that other hosts tell of, and limits that end before their time.

use super::*;
use crate::stops::book::{ADDRESSES, AT_A_TIME, NEW};

fn place(number: u32) -> Place {
    Place::of(v4(number), PORT)
}

#[test]
fn a_limit_of_another_host_counts_within_the_same_bounds() {
    let (mut book, now) = (Book::default(), seconds(5));
    for number in 0..NEW as u32 / 2 {
        begun(&mut book, v4(number), now);
    }
    for number in NEW as u32 / 2..NEW as u32 {
        let outcome = book.hear(place(number), now + seconds(7), now);
        assert!(matches!(outcome, Outcome::New { end, times: 1, .. } if end == now + seconds(7)), "{outcome:?}");
    }
    assert_eq!(book.hear(place(1_000), now + seconds(7), now), Outcome::Refused(Refusal::TooFast));
    // It neither prolongs a limit in force nor lasts longer than one of this host.
    let (own, next) = (place(1), now + seconds(1));
    assert_eq!(book.hear(own, now + seconds(600), next), Outcome::InForce { place: own, end: now + seconds(10) });
    let outcome = book.hear(place(1_000), seconds(1_000_000), next);
    assert!(matches!(outcome, Outcome::New { end, .. } if end == next + seconds(10)), "{outcome:?}");
    let (next, far) = (seconds(100), seconds(1_000_000));
    let outcome = book.hear(place(1_000), far, next);
    assert!(matches!(outcome, Outcome::New { end, times: 2, .. } if end == next + seconds(20)), "{outcome:?}");
}

#[test]
fn limits_of_other_hosts_and_own_ones_are_at_most_ten_thousand_together() {
    let (mut book, mut now) = (Book::default(), seconds(0));
    // Nobody takes the ends, so every limit stays in force.
    for number in 0..AT_A_TIME as u32 {
        let outcome = match number % 2 {
            0 => book.ask(v4(number), PORT, true, now),
            _ => book.hear(place(number), now + seconds(9), now),
        };
        assert!(matches!(outcome, Outcome::New { .. }), "{number} {outcome:?}");
        if (number as usize + 1).is_multiple_of(NEW) {
            now += seconds(1);
        }
    }
    let more = [book.hear(place(70_000), now + seconds(9), now), book.ask(v4(70_001), PORT, true, now)];
    assert_eq!(more, [Outcome::Refused(Refusal::TooMany); 2]);
}

#[test]
fn a_network_of_another_host_needs_as_many_addresses_as_one_of_this_host() {
    let (mut book, now) = (Book::default(), seconds(0));
    let network = Place { source: around(v6("2001:db8::1")).unwrap(), port: PORT };
    for number in 1..=ADDRESSES {
        assert_eq!(book.hear(network, now + seconds(9), now), Outcome::Refused(Refusal::FewAddresses), "{number}");
        let address = Place::of(v6(&format!("2001:db8::{number}")), PORT);
        assert!(matches!(book.hear(address, now + seconds(9), now), Outcome::New { .. }));
    }
    assert!(matches!(book.hear(network, now + seconds(9), now), Outcome::New { .. }));
}

#[test]
fn a_limit_that_never_began_counts_neither_as_one_nor_for_the_bounds() {
    let (mut book, now) = (Book::default(), seconds(0));
    for _ in 0..3 * NEW {
        let (_, life, times) = begun(&mut book, v4(1), now);
        assert_eq!((life, times), (seconds(10), 1));
        book.take_back(place(1), now + life);
        assert_eq!((book.remembered(), book.in_force().len()), (0, 0));
    }
    // The one before counts as it did.
    begun(&mut book, v4(1), now);
    for _ in 0..3 {
        let (_, life, times) = begun(&mut book, v4(1), seconds(20));
        assert_eq!((life, times), (seconds(20), 2));
        book.take_back(place(1), seconds(20) + life);
        assert!(book.ended(seconds(20)).is_empty());
    }
    // Another limit of the place stays.
    let (_, life, _) = begun(&mut book, v4(1), seconds(100));
    book.take_back(place(1), seconds(40));
    assert!(book.in_force_at(place(1), seconds(99) + life));
}

#[test]
fn a_limit_that_ends_early_is_not_told_again_and_counts_as_a_repetition() {
    let mut book = Book::default();
    begun(&mut book, v4(1), seconds(0));
    book.end(place(1), seconds(3));
    assert!(!book.in_force_at(place(1), seconds(3)) && book.in_force().len() == 0);
    assert!(book.ended(seconds(20)).is_empty());
    assert_eq!(begun(&mut book, v4(1), seconds(20)).2, 2);
    // A place without a limit has no end.
    book.end(place(2), seconds(20));
    assert_eq!((book.remembered(), book.in_force().len()), (1, 1));
}
