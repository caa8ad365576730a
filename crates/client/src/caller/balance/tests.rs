//! Shares of servers, and servers that fail. Time and random numbers are those of the test.

use std::time::Duration;

use proptest::prelude::*;

use super::{
    Balance, Balancer, End,
    outage::{FIRST, LONGEST},
};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Begins a question without random numbers, and returns its server.
fn ask(balancer: &mut Balancer, now: Duration, end: End) -> Option<usize> {
    let (number, ticket) = balancer.begin(now, 0, [0, 0])?;
    balancer.end(number, ticket, end, now, u64::MAX);
    Some(number)
}

#[test]
fn weights_of_5_1_and_1_take_turns_as_nginx_documents_it() {
    let mut balancer = Balancer::new(&[5, 1, 1], Balance::RoundRobin);
    let order: Vec<_> = (0..7).filter_map(|_| ask(&mut balancer, MILLISECOND, End::Answered(None))).collect();
    assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
}

proptest! {
    #[test]
    fn each_server_gets_exactly_its_weight_in_each_period(
        weights in proptest::collection::vec(1_u16..50, 1..8), periods in 1_usize..4,
    ) {
        let mut balancer = Balancer::new(&weights, Balance::RoundRobin);
        let period: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        for _ in 0..periods {
            let mut counts = vec![0; weights.len()];
            for _ in 0..period {
                counts[ask(&mut balancer, MILLISECOND, End::Answered(None)).unwrap()] += 1;
            }
            prop_assert_eq!(&counts, &weights);
        }
    }

    #[test]
    fn a_request_asks_each_server_once_in_either_way(
        weights in proptest::collection::vec(1_u16..50, 1..64), random: [u64; 2], by_load: bool,
    ) {
        let balance = if by_load { Balance::LeastLoad } else { Balance::RoundRobin };
        let mut balancer = Balancer::new(&weights, balance);
        let mut asked = 0_u64;
        for _ in &weights {
            let (number, _) = balancer.begin(MILLISECOND, asked, random).unwrap();
            prop_assert_eq!(asked & 1 << number, 0);
            asked |= 1 << number;
        }
        prop_assert!(balancer.begin(MILLISECOND, asked, random).is_none());
    }

    #[test]
    fn a_server_that_fails_gets_one_probe_per_backoff(random: Vec<u64>, calls in 1_usize..20) {
        let mut balancer = Balancer::new(&[1], Balance::RoundRobin);
        let mut now = MILLISECOND;
        // Several questions are under way when the server fails. They count as one failure.
        let begun: Vec<_> = (0..calls).filter_map(|_| balancer.begin(now, 0, [0, 0])).collect();
        prop_assert_eq!(begun.len(), calls);
        for (number, ticket) in begun {
            balancer.end(number, ticket, End::Failed, now, 0);
        }
        let mut least = FIRST / 2;
        for random in random {
            prop_assert!(balancer.begin(now + least - MILLISECOND, 0, [0, 0]).is_none());
            // The wait is over at its longest.
            now += least * 2;
            let (number, ticket) = balancer.begin(now, 0, [0, 0]).unwrap();
            prop_assert!(balancer.begin(now + LONGEST, 0, [0, 0]).is_none());
            balancer.end(number, ticket, End::Failed, now, random);
            least = (least * 2).min(LONGEST / 2);
        }
    }

    #[test]
    fn the_less_loaded_of_two_servers_is_asked(weights: [u16; 2], loads: [u16; 2], random: [u64; 2]) {
        let weights = weights.map(|weight| weight.max(1));
        let mut balancer = Balancer::new(&weights, Balance::LeastLoad);
        for (number, load) in loads.into_iter().enumerate() {
            let (found, ticket) = balancer.begin(MILLISECOND, 1 << (1 - number), [0, 0]).unwrap();
            prop_assert_eq!(found, number);
            // The question itself is one of the calls.
            balancer.end(number, ticket, End::Answered(Some(u64::from(load) + 1)), MILLISECOND, 0);
        }
        let (number, _) = balancer.begin(MILLISECOND, 0, random).unwrap();
        let part = |number: usize| u64::from(loads[number]) * u64::from(weights[1 - number]);
        prop_assert!(part(number) <= part(1 - number));
    }

    #[test]
    fn times_and_reports_at_their_ends_break_nothing(
        now: u64, later: u64, report: u64, random: [u64; 2], weights: [u16; 3],
    ) {
        let mut balancer = Balancer::new(&weights, Balance::LeastLoad);
        let now = Duration::from_nanos(now);
        let (number, ticket) = balancer.begin(now, 0, random).unwrap();
        balancer.end(number, ticket, End::Answered(Some(report)), now, random[0]);
        let (number, ticket) = balancer.begin(Duration::from_nanos(later), 0, random).unwrap();
        balancer.end(number, ticket, End::Failed, Duration::from_nanos(later), random[1]);
        prop_assert!(balancer.begin(now, 0, random).is_some());
    }
}

#[test]
fn servers_without_load_get_their_weights_on_average() {
    let mut balancer = Balancer::new(&[3, 1], Balance::LeastLoad);
    let mut counts = [0; 2];
    // All draws alike often.
    for draw in 0..1_024_u64 {
        let (number, ticket) = balancer.begin(MILLISECOND, 0, [draw << 54, 0]).unwrap();
        balancer.end(number, ticket, End::Answered(Some(1)), MILLISECOND, 0);
        counts[number] += 1;
    }
    assert_eq!(counts, [768, 256]);
}

#[test]
fn calls_that_are_under_way_count_as_load() {
    let mut balancer = Balancer::new(&[1, 1], Balance::LeastLoad);
    let numbers: Vec<_> = (0..10).filter_map(|_| balancer.begin(MILLISECOND, 0, [0, 0])).map(|it| it.0).collect();
    assert_eq!(numbers.iter().filter(|number| **number == 0).count(), 5);
}

#[test]
fn a_report_of_much_load_is_forgotten_with_time() {
    let mut balancer = Balancer::new(&[1, 1], Balance::LeastLoad);
    let (number, ticket) = balancer.begin(MILLISECOND, 0, [0, 0]).unwrap();
    balancer.end(number, ticket, End::Answered(Some(9)), MILLISECOND, 0);
    let mut first = |now| {
        let (number, ticket) = balancer.begin(now, 0, [0, 0]).unwrap();
        balancer.end(number, ticket, End::Answered(None), now, 0);
        number
    };
    assert_eq!(first(Duration::from_secs(3)), 1 - number);
    assert_eq!(first(Duration::from_secs(5)), number);
}

#[test]
fn the_time_of_a_server_that_fails_doubles_from_100_ms_to_30_s_and_begins_again_after_an_answer() {
    let mut balancer = Balancer::new(&[1], Balance::RoundRobin);
    let mut now = MILLISECOND;
    for _ in 0..2 {
        for expected in [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            assert_eq!(ask(&mut balancer, now, End::Failed), Some(0));
            let time = Duration::from_millis(expected);
            assert_eq!(ask(&mut balancer, now + time - MILLISECOND, End::Failed), None);
            now += time;
        }
        assert_eq!(ask(&mut balancer, now, End::Answered(None)), Some(0));
    }
}

#[test]
fn a_probe_that_nobody_waits_for_any_more_is_begun_again_and_an_old_answer_ends_nothing() {
    let mut balancer = Balancer::new(&[1], Balance::RoundRobin);
    let (_, old) = balancer.begin(MILLISECOND, 0, [0, 0]).unwrap();
    assert_eq!(ask(&mut balancer, MILLISECOND, End::Failed), Some(0));
    balancer.end(0, old, End::Answered(None), MILLISECOND, 0);
    assert_eq!(ask(&mut balancer, MILLISECOND * 2, End::Failed), None);
    let now = FIRST + MILLISECOND;
    let (_, probe) = balancer.begin(now, 0, [0, 0]).unwrap();
    assert!(balancer.begin(now, 0, [0, 0]).is_none());
    balancer.end(0, probe, End::Abandoned, now, 0);
    assert_eq!(ask(&mut balancer, now, End::Answered(None)), Some(0));
    assert_eq!(ask(&mut balancer, now, End::Answered(None)), Some(0));
}

#[test]
fn servers_that_are_left_out_leave_their_part_to_the_others_by_weight() {
    let mut balancer = Balancer::new(&[1, 2, 1], Balance::RoundRobin);
    let (number, ticket) = balancer.begin(MILLISECOND, 0b101, [0, 0]).unwrap();
    assert_eq!(number, 1);
    balancer.end(number, ticket, End::Failed, MILLISECOND, 0);
    let order: Vec<_> = (0..6).filter_map(|_| ask(&mut balancer, MILLISECOND, End::Answered(None))).collect();
    assert_eq!(order, [0, 2, 0, 2, 0, 2]);
}
