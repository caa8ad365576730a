//! Sources that are reported, under a clock of the test.

use ratelimit_common::{
    fleet::lease::WHOLE,
    limits::limit::{Limit, Rate},
};

use super::*;

const START: u64 = 1_000 * SECOND;
const PERIOD: u64 = SECOND / 5;
const BURST: f64 = 100.0;

/// Returns a source with 1,000 packets per second, and the cost of one packet.
fn watched(is_refused: bool) -> (Watched, u64) {
    let limit = Limit { packets: Some(Rate { amount: 1_000, period: SECOND }), burst: Some(100), ..Limit::default() };
    let policy = limit.policy().unwrap();
    let measure = Measure::of(&policy, "192.0.2.1").unwrap();
    let watched =
        Watched::new(Source::v4([192, 0, 2, 1]), 7, (Rule::default(), measure), is_refused.then_some(BURST), START);
    (watched, policy.packets.cost_of(1))
}

fn report(watched: &mut Watched, now: u64) -> Option<Report> {
    watched.report(&Terms::default(), 1.0, false, now)
}

#[test]
fn a_refused_source_tells_that_it_has_spent_its_burst_and_begins_its_lease_with_that_debt() {
    let (mut watched, cost) = watched(true);
    let first = watched.report(&Terms::default(), 1.0, true, START).unwrap();
    assert_eq!((first.offered, first.admitted, first.own, first.record), (BURST, BURST, BURST, 0));
    let grant = watched.take(&Answer { share: Some(0.25), record: 5 }, &Terms::default(), START);
    assert_eq!((grant.share, grant.end), (0.25, START + 4 * PERIOD));
    assert_eq!(grant.states[0], units(START) + 100 * cost);
}

#[test]
fn a_busy_source_is_reported_in_each_period_and_a_calm_one_in_each_fifth() {
    for (packets, expected) in
        [(50, [true; 10]), (2, [false, false, false, false, true, false, false, false, false, true])]
    {
        let (mut watched, cost) = watched(false);
        watched.renew(Next::Whole, &Terms::default(), START);
        let reported = std::array::from_fn(|period| {
            let now = START + (period as u64 + 1) * PERIOD;
            let place = Lease { admitted: packets * (period as u64 + 1) * cost, multiplier: WHOLE, ..Lease::default() };
            watched.read(Some(place), now);
            watched.renew(Next::Whole, &Terms::default(), now);
            let is_reported = report(&mut watched, now).is_some();
            if is_reported {
                watched.take(&Answer { share: None, record: 5 }, &Terms::default(), now);
            }
            is_reported
        });
        assert_eq!(reported, expected, "{packets}");
    }
}

#[test]
fn nothing_is_reported_twice_or_while_an_answer_is_missing() {
    let (mut watched, cost) = watched(false);
    watched.read(Some(Lease { admitted: 80 * cost, ..Lease::default() }), START);
    assert_eq!(report(&mut watched, START).map(|report| report.admitted), Some(80.0));
    watched.read(Some(Lease { admitted: 90 * cost, ..Lease::default() }), START);
    assert_eq!(watched.report(&Terms::default(), 1.0, true, START), None);
    watched.fail();
    // The server may still read the first report.
    let report = watched.report(&Terms::default(), 1.0, true, START).unwrap();
    assert_eq!((report.offered, report.admitted), (10.0, 0.0));
    watched.take(&Answer { share: None, record: 5 }, &Terms::default(), START);
    // Its first place begins at 0.
    watched.read(Some(Lease { admitted: 5 * cost, ..Lease::default() }), START);
    assert_eq!(watched.report(&Terms::default(), 1.0, true, START).map(|report| report.admitted), Some(5.0));
}

#[test]
fn what_was_admitted_without_an_engine_is_not_reported_later() {
    let (mut watched, cost) = watched(false);
    watched.read(Some(Lease { admitted: 500 * cost, ..Lease::default() }), START);
    watched.skip(&Terms::default(), START);
    watched.read(Some(Lease { admitted: 580 * cost, refused: 20, ..Lease::default() }), START);
    let report = report(&mut watched, START).unwrap();
    assert_eq!((report.offered, report.admitted, report.own), (100.0, 80.0, 600.0));
}

#[test]
fn a_share_holds_for_four_periods_and_the_place_is_counted_afterwards() {
    let (terms, (mut watched, _)) = (Terms::default(), watched(false));
    let first = watched.renew(Next::Whole, &terms, START).unwrap();
    assert_eq!((first.share, first.end), (1.0, START + 4 * PERIOD));
    assert_eq!(watched.renew(Next::Whole, &terms, START + PERIOD).map(|grant| grant.end), None);
    let renewed = watched.renew(Next::Whole, &terms, START + 2 * PERIOD).unwrap();
    assert_eq!(renewed.end, START + 6 * PERIOD);
    let answer = Answer { share: Some(0.5), record: 5 };
    assert_eq!(watched.take(&answer, &terms, START + 3 * PERIOD).end, START + 7 * PERIOD);
    assert_eq!(watched.renew(Next::Whole, &terms, START + 6 * PERIOD).map(|grant| grant.end), None);
    let ended = START + 7 * PERIOD;
    for (next, share) in [(Next::Part(0.25), 0.25), (Next::Same, 0.5), (Next::Whole, 1.0)] {
        assert_eq!(watched.clone().renew(next, &terms, ended).map(|grant| grant.share), Some(share));
    }
}

#[test]
fn without_an_engine_a_part_applies_at_once_and_is_renewed_without_a_gap() {
    for answer in [None, Some(0.5)] {
        let (terms, (mut watched, _)) = (Terms::default(), watched(false));
        watched.renew(Next::Whole, &terms, START);
        watched.take(&Answer { share: answer, record: 5 }, &terms, START);
        for (next, share) in [(Next::Part(0.25), 0.25), (Next::Same, answer.unwrap_or(1.0))] {
            let mut watched = watched.clone();
            let mut end = START + 4 * PERIOD;
            for period in 1..20 {
                if let Some(grant) = watched.renew(next, &terms, START + period * PERIOD) {
                    assert_eq!(grant.share, share);
                    assert!(grant.end > end && START + period * PERIOD < end, "a gap");
                    end = grant.end;
                }
            }
        }
    }
}

#[test]
fn a_source_without_packets_is_given_up_and_its_place_counts_from_0_again() {
    let (terms, (mut watched, cost)) = (Terms::default(), watched(false));
    watched.renew(Next::Whole, &terms, START);
    watched.read(Some(Lease { admitted: 80 * cost, ..Lease::default() }), START + SECOND);
    assert!(!watched.is_idle(START + 10 * SECOND));
    assert!(watched.is_idle(START + 11 * SECOND));
    watched.renew(Next::Whole, &terms, START + 11 * SECOND);
    watched.read(Some(Lease { admitted: 90 * cost, ..Lease::default() }), START + 11 * SECOND);
    assert_eq!(report(&mut watched, START + 11 * SECOND).map(|report| report.admitted), Some(170.0));
}
