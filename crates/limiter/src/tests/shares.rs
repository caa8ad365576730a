//! Servers that share limits through an engine, under a clock of the test.

use std::{collections::HashMap, sync::Arc};

use ratelimit_common::fleet::share::{Answer, Record, Terms};

use super::*;

const PERIOD: u64 = SECOND / 10;
const TERMS: Terms = Terms { period: 0.1, floor: 0.25, least: 1.0 / 1024.0 };
const START: u64 = 1_000 * HOUR;

/// Servers with the same rule, and the engine between them.
struct Fleet {
    servers: Vec<Limiter>,
    records: HashMap<(u128, usize), Record>,
    now: u64,
    reports: usize,
}

impl Fleet {
    fn of(count: u64, rule: &Rule) -> Self {
        // Each server has its own seed. They only share that of the shares.
        let server = |number| {
            let shares = Arc::new(Shares::new([7, 8], TERMS));
            Limiter::new([rule.clone()], [number, 2]).with_shares(Some(shares))
        };
        Self { servers: (0..count).map(server).collect(), records: HashMap::new(), now: START, reports: 0 }
    }

    /// Carries the reports of one server to the engine, and the answers back.
    fn report(&mut self, server: usize) {
        let seconds = self.now as f64 / SECOND as f64;
        let shares = Arc::clone(self.servers[server].shares().unwrap());
        let due = shares.reports(1.0, [10_000, 1_000], self.now);
        self.reports += due.len();
        for due in due {
            let number = self.records.len() as u64 + 1;
            let record = self.records.entry((due.client, due.number()));
            let record = record.or_insert_with(|| Record::new(number, &due.limit, &TERMS, seconds));
            let answer = record.take(&due.report, &due.limit, &TERMS, seconds);
            shares.take(&due, Some(&answer), self.now);
        }
    }

    /// Sends `offered` requests per second of one user to each server, and returns how many are admitted in each second.
    /// Servers report by turns, unless the engine is lost.
    fn run(&mut self, seconds: usize, offered: &[u64], has_engine: bool) -> Vec<u64> {
        const STEP: u64 = SECOND / 10_000;
        let mut admitted = vec![0; seconds];
        for (second, count) in admitted.iter_mut().enumerate() {
            for step in 0..10_000 {
                self.now = self.now.max(START + 1) + STEP;
                for (server, offered) in offered.iter().enumerate() {
                    let is_due = |step: u64| step * offered / 10_000;
                    for _ in is_due(step)..is_due(step + 1) {
                        *count += u64::from(allows(&self.servers[server], self.now));
                    }
                    let turn = PERIOD / STEP / self.servers.len() as u64 * server as u64;
                    let is_turn = (step + second as u64 * 10_000) % (PERIOD / STEP) == turn;
                    match has_engine {
                        true if is_turn => self.report(server),
                        false if is_turn => self.servers[server].shares().unwrap().skip(self.now),
                        _ => {}
                    }
                }
            }
        }
        admitted
    }
}

fn rule(limits: impl IntoIterator<Item = Limit>) -> Rule {
    Rule::new("test", limits).unwrap().by(["user"])
}

/// Returns the mean of some seconds, as a part of the limit of 1,000 per second.
fn mean(admitted: &[u64]) -> f64 {
    admitted.iter().sum::<u64>() as f64 / admitted.len() as f64 / 1_000.0
}

#[test]
fn three_servers_that_are_saturated_admit_one_limit_in_all() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindow, Algorithm::SlidingLog, Algorithm::FixedWindow] {
        let mut fleet = Fleet::of(3, &rule([limit(1_000, SECOND, algorithm)]));
        let admitted = fleet.run(30, &[3_000, 3_000, 3_000], true);
        let settled = &admitted[5..];
        for length in [1, 5, 20] {
            let means: Vec<_> = settled.windows(length).map(mean).collect();
            let worst = means
                .iter()
                .fold(1.0, |worst: f64, mean| if (mean - 1.0).abs() > (worst - 1.0).abs() { *mean } else { worst });
            assert!((worst - 1.0).abs() <= 0.01, "{algorithm:?}, {length} s: {means:?}");
        }
    }
}

#[test]
fn a_client_below_the_limit_of_all_servers_is_never_refused() {
    let mut fleet = Fleet::of(3, &rule([limit(1_000, SECOND, Algorithm::TokenBucket)]));
    assert_eq!(fleet.run(10, &[300, 300, 300], true), vec![900; 10]);
}

#[test]
fn without_the_engine_each_server_has_its_own_limit_and_with_it_they_share_again() {
    let mut fleet = Fleet::of(3, &rule([limit(1_000, SECOND, Algorithm::TokenBucket)]));
    fleet.run(5, &[2_000; 3], true);
    let alone = fleet.run(5, &[2_000; 3], false);
    // In the first seconds, each of them also has the burst that it did not need.
    assert!(alone[2..].iter().all(|admitted| (2_990..=3_010).contains(admitted)), "{alone:?}");
    let shared = fleet.run(5, &[2_000; 3], true);
    assert!(shared[2..].iter().all(|admitted| (950..=1_050).contains(admitted)), "{shared:?}");
}

#[test]
fn a_quota_of_an_hour_is_that_of_all_servers_after_the_first_contact() {
    // A client that asks each of three servers once per second has used the quota after 34 seconds.
    let mut fleet = Fleet::of(3, &rule([limit(100, HOUR, Algorithm::TokenBucket)]));
    let admitted: u64 = fleet.run(60, &[1; 3], true).iter().sum();
    assert!((100..=105).contains(&admitted), "{admitted}");
}

/// Why rules have refused.
#[derive(Debug, Default)]
struct Causes(Vec<Cause>);

impl crate::Record for Causes {
    fn admitted(&mut self, _: &Counted<'_>, _: u32) {}

    fn refused(&mut self, _: &Counted<'_>, refusal: Refusal) {
        self.0.push(refusal.cause);
    }
}

#[test]
fn what_is_given_back_is_neither_reported_nor_charged_to_a_lease() {
    let one = rule([limit(1_000, SECOND, Algorithm::TokenBucket)]);
    let narrow = Rule::new("narrow", [limit(2, HOUR, Algorithm::TokenBucket)]).unwrap();
    let narrow = narrow.with_values("operation", ["x"]).by(["user"]);
    let shares = Arc::new(Shares::new([7, 8], TERMS));
    let limiter = Limiter::new([one, narrow], [1, 2]).with_shares(Some(Arc::clone(&shares)));
    let now = START + 5 * PERIOD;
    let ask = |now| limiter.check(&[("user", "17"), ("operation", "x")], 1, now);
    assert!(ask(START).is_allowed && ask(START).is_allowed);
    // What asks little is reported in the fifth period.
    let due: Vec<_> = (1..=5).flat_map(|period| shares.reports(1.0, [10, 10], START + period * PERIOD)).collect();
    assert_eq!(due.len(), 2);
    for due in due {
        assert_eq!((due.report.offered, due.report.admitted), (2.0, 2.0));
        // A lease of a hundredth of 1,000 per second: ten requests fit its burst.
        let share = (limiter.rule_of(&due) == Some("test")).then_some(0.01);
        shares.take(&due, Some(&Answer { share, record: 1 }), now);
    }
    // The second rule refuses all of these, so the lease of the first one has room for them all the time.
    for number in 1..100 {
        let decision = ask(now + number);
        assert_eq!(decision.limit.map(|usage| usage.rule.name()), Some("narrow"), "{number}");
    }
    let due = shares.reports(1.0, [10, 10], now + PERIOD);
    assert_eq!(due.iter().map(|due| limiter.rule_of(due)).collect::<Vec<_>>(), [Some("narrow")]);
    assert_eq!(allowed(&limiter, 100, now + 200), 10);
    // The limit of this server has room, but the lease has none.
    let refused = limiter.check(&[("user", "17")], 1, now + 200);
    assert_eq!((refused.is_allowed, refused.limit.map(|usage| usage.remaining)), (false, Some(0)));
    let mut causes = Causes::default();
    limiter.check_and_record(&[("user", "17"), ("operation", "x")], 1, now + 200, &mut causes);
    assert_eq!(causes.0, [Cause::Share, Cause::Limit]);
}

#[test]
fn many_clients_that_ask_once_do_not_keep_a_busy_one_from_the_engine() {
    let mut fleet = Fleet::of(1, &rule([limit(1_000, SECOND, Algorithm::TokenBucket)]));
    let server = &fleet.servers[0];
    for number in 0..20_000 {
        server.check(&[("user", format!("x{number}"))], 1, START + number);
        if number % 20 == 0 {
            allows(server, START + number);
        }
    }
    let shares = server.shares().unwrap();
    let due = shares.reports(1.0, [10_000, 100], START + PERIOD);
    assert_eq!(due.len(), 1, "clients that ask little are not urgent");
    assert_eq!((server.rule_of(&due[0]), due[0].report.offered), (Some("test"), 1_000.0));
    // Later, those that ask little have their turn, within the bounds.
    for period in 2..7 {
        for number in 0..1_000 {
            server.check(&[("user", format!("x{number}"))], 1, START + period * PERIOD + number);
        }
        assert!(shares.reports(1.0, [10_000, 100], START + period * PERIOD + 2_000).len() <= 100);
    }
    assert!(shares.len() <= 16_384);
    assert!(shares.lost() > 0);
    fleet.report(0);
}

#[test]
fn a_client_with_long_pauses_does_not_come_between_two_leases() {
    let mut fleet = Fleet::of(3, &rule([limit(10, HOUR, Algorithm::TokenBucket)]));
    let mut admitted = 0;
    // Each server is asked every 15 seconds, and reports in each period.
    for period in 0..1_800 {
        fleet.now = START + (period + 1) * PERIOD;
        for server in 0..3 {
            if period % 150 == 0 {
                admitted += usize::from(allows(&fleet.servers[server], fleet.now));
            }
            fleet.report(server);
        }
    }
    assert!((10..=13).contains(&admitted), "{admitted} of 36");
}

#[test]
fn a_request_that_costs_more_than_the_limit_is_no_demand() {
    let fleet = Fleet::of(1, &rule([limit(1_000, SECOND, Algorithm::TokenBucket)]));
    let server = &fleet.servers[0];
    assert!(!server.check(&[("user", "17")], u32::MAX, START).is_allowed);
    server.check(&[("user", "17")], 500, START);
    let due = server.shares().unwrap().reports(1.0, [10, 10], START + PERIOD);
    assert_eq!(due.iter().map(|due| due.report.offered).collect::<Vec<_>>(), [500.0]);
}
