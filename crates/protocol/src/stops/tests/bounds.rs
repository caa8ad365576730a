//! Every limit ends, and their number is bounded.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::stops::{
    book::{AT_A_TIME, NEW, REMEMBERED},
    span::{FIRST, LONGEST, MEMORY},
};

#[test]
fn each_repetition_doubles_the_time_up_to_ten_minutes() {
    let (mut book, mut now) = (Book::default(), seconds(5));
    for (before, expected) in [10, 20, 40, 80, 160, 320, 600, 600, 600].into_iter().enumerate() {
        let limit = begun(&mut book, v4(1), now);
        assert_eq!(limit, ("10.0.0.1".to_owned(), seconds(expected), before as u32 + 1));
        now += limit.1;
    }
}

#[test]
fn a_request_does_not_prolong_a_limit_in_force() {
    let mut book = Book::default();
    begun(&mut book, v4(1), seconds(0));
    for now in 0..10 {
        let outcome = book.ask(v4(1), PORT, true, seconds(now));
        assert!(matches!(outcome, Outcome::InForce { end, .. } if end == seconds(10)), "{outcome:?}");
    }
    assert_eq!(begun(&mut book, v4(1), seconds(10)).2, 2);
}

#[test]
fn an_hour_after_its_end_a_limit_is_forgotten() {
    let mut book = Book::default();
    begun(&mut book, v4(1), seconds(0));
    begun(&mut book, v4(2), seconds(0));
    assert_eq!(begun(&mut book, v4(1), seconds(10) + MEMORY - Duration::from_nanos(1)).2, 2);
    assert_eq!(begun(&mut book, v4(2), seconds(10) + MEMORY).2, 1);
    book.ended(seconds(10_000));
    assert_eq!(book.remembered(), 0);
}

#[test]
fn services_of_an_address_are_limited_apart() {
    let mut book = Book::default();
    begun(&mut book, v4(1), seconds(0));
    assert!(matches!(book.ask(v4(1), 80, true, seconds(0)), Outcome::New { times: 1, .. }));
}

#[test]
fn an_end_is_told_once_and_never_early() {
    let mut book = Book::default();
    begun(&mut book, v4(1), seconds(0));
    assert!(book.ended(seconds(10) - Duration::from_nanos(1)).is_empty());
    assert_eq!(book.ended(seconds(10)).len(), 1);
    assert!(book.ended(seconds(11)).is_empty());
    assert_eq!(book.in_force().len(), 0);
}

#[test]
fn twenty_thousand_places_are_remembered_and_the_oldest_is_forgotten_first() {
    let (mut book, mut now) = (Book::default(), seconds(0));
    for number in 0..REMEMBERED as u32 + 500 {
        begun(&mut book, v4(number), now);
        if (number as usize + 1).is_multiple_of(NEW) {
            now += seconds(1);
            book.ended(now);
        }
        assert!(book.remembered() <= REMEMBERED);
    }
    assert_eq!(book.remembered(), REMEMBERED);
    let times = [0, 600].map(|number| begun(&mut book, v4(number), now).2);
    assert_eq!(times, [1, 2]);
}

#[test]
fn further_limits_are_refused_while_ten_thousand_are_in_force() {
    let (mut book, mut now) = (Book::default(), seconds(0));
    let mut refused = 0;
    // The clock stands within each hundred. Nobody takes the ends, so every limit stays in force.
    for number in 0..AT_A_TIME as u32 + 50 {
        match book.ask(v4(number), PORT, true, now) {
            Outcome::New { .. } => {}
            Outcome::Refused(Refusal::TooMany) => refused += 1,
            other => panic!("{other:?}"),
        }
        if (number as usize + 1).is_multiple_of(NEW) {
            now += seconds(1);
        }
    }
    assert_eq!((book.in_force().len(), refused), (AT_A_TIME, 50));
    book.ended(now + LONGEST);
    assert_eq!(begun(&mut book, v4(70_000), now + LONGEST).2, 1);
}

#[test]
fn the_hundred_and_first_limit_of_a_second_is_refused() {
    let mut book = Book::default();
    for number in 0..NEW as u32 {
        begun(&mut book, v4(number), Duration::from_millis(u64::from(number)));
    }
    let refused = Outcome::Refused(Refusal::TooFast);
    assert_eq!(book.ask(v4(200), PORT, true, Duration::from_millis(999)), refused);
    begun(&mut book, v4(200), seconds(1));
    assert_eq!(book.ask(v4(201), PORT, true, seconds(1)), refused);
}

#[test]
fn a_clock_that_goes_back_prolongs_nothing() {
    let mut book = Book::default();
    begun(&mut book, v4(1), seconds(100));
    let Outcome::New { end, .. } = book.ask(v4(2), PORT, true, seconds(0)) else { panic!() };
    assert_eq!(end, seconds(110));
}

#[test]
fn the_latest_time_is_no_panic() {
    let mut book = Book::default();
    assert!(matches!(book.ask(v4(1), PORT, true, Duration::MAX), Outcome::New { .. }));
    assert_eq!(book.ended(Duration::MAX).len(), 1);
}

proptest! {
    /// Whatever callers ask for and when: each limit ends within ten minutes, no request moves an end, no second has
    /// more than a hundred new limits, and every end is told.
    #[test]
    fn whatever_is_asked_every_limit_ends_and_their_rate_is_bounded(
        asks in vec((0u32..300, 0u64..3_000, any::<bool>()), 1..600),
    ) {
        let (mut book, mut now) = (Book::default(), Duration::ZERO);
        let mut begun: Vec<Duration> = Vec::new();
        let mut in_force: std::collections::HashMap<Place, Duration> = std::collections::HashMap::new();
        for (number, pause, tells) in asks {
            now += Duration::from_millis(pause / 10);
            if tells {
                for place in book.ended(now) {
                    let end = in_force.remove(&place);
                    prop_assert!(end.is_some_and(|end| end <= now));
                }
            }
            match book.ask(v4(number), PORT, true, now) {
                Outcome::New { place, end, .. } => {
                    prop_assert!((FIRST..=LONGEST).contains(&(end - now)));
                    let before = in_force.insert(place, end);
                    prop_assert!(before.is_none_or(|before| before <= now));
                    begun.push(now);
                }
                Outcome::InForce { place, end } => prop_assert_eq!(in_force.get(&place), Some(&end)),
                Outcome::Refused(refusal) => prop_assert_eq!(refusal, Refusal::TooFast),
            }
            let recent = begun.iter().filter(|begun| now - **begun < seconds(1)).count();
            prop_assert!(recent <= NEW);
            prop_assert_eq!(book.in_force().len(), in_force.len());
        }
        now += LONGEST;
        prop_assert_eq!(book.ended(now).len(), in_force.len());
        prop_assert_eq!(book.in_force().len(), 0);
    }
}
