use proptest::prelude::*;
use ratelimit_common::fleet::share::Report;

use super::{
    super::counts::{Counts, Merged},
    *,
};

const LIMIT: Limit = Limit { rate: 1_000.0, burst: 100.0 };

fn key() -> Key {
    Key::of("192.0.2.1", &LIMIT)
}

fn secret() -> Secret {
    Secret::new("a secret of this fleet")
}

fn message(offered: f64, admitted: f64, own: f64, record: u64) -> Message {
    Message { key: key(), limit: LIMIT, report: Report { offered, admitted, own, weight: 1.0, record } }
}

fn replica() -> Replica {
    let mut replica = Replica::new(0);
    replica.report(&secret(), &message(0.0, 0.0, 0.0, 0), &Terms::default(), |_| Vec::new(), 0.0);
    replica
}

/// Cumulative reports of one host, each a moment after the one before.
fn reports(steps: &[(f64, f64)]) -> Vec<Told> {
    let (mut offered, mut admitted) = (0.0, 0.0);
    let told = |(more, part): &(f64, f64)| {
        offered += more;
        admitted += more * part;
        Told { name: secret().name(&key()), birth: 1, offered, admitted, own: offered as f32, level: 0.0 }
    };
    steps.iter().map(told).collect()
}

/// Returns the record after these reports of each host, all at one time.
fn record(reports: &[(usize, Told)]) -> Record {
    let (mut replica, mut counts) = (replica(), [Counts::of(0), Counts::of(0), Counts::of(0)]);
    for (host, told) in reports {
        if let Merged::Grown(grown) = counts[*host].merge(told, true, true, 0.0) {
            replica.hear(told, &grown, 1.0, &Terms::default(), 0.0);
        }
    }
    replica.record(&secret(), &key()).unwrap()
}

proptest! {
    #[test]
    fn any_order_and_repetition_of_reports_and_late_ones_after_lost_ones_give_the_same_record(
        hosts in prop::collection::vec(prop::collection::vec((0.01..50.0, 0.0..1.0), 1..8), 3),
        order in prop::collection::vec((0..3usize, 0..8usize), 0..40),
    ) {
        let hosts: Vec<_> = hosts.iter().map(|steps| reports(steps)).collect();
        let in_order: Vec<_> = (0..8).flat_map(|step| (0..3).map(move |host| (host, step)))
            .filter_map(|(host, step)| Some((host, *hosts[host].get(step)?))).collect();
        let mut mixed: Vec<_> =
            order.iter().filter_map(|(host, step)| Some((*host, *hosts[*host].get(*step)?))).collect();
        mixed.extend(hosts.iter().enumerate().filter_map(|(host, reports)| Some((host, *reports.last()?))));
        let (expected, found) = (record(&in_order), record(&mixed));
        let equal = |a: f64, b: f64| (a - b).abs() < 1e-3 * a.abs().max(1.0);
        prop_assert!(equal(expected.level, found.level), "{expected:?} {found:?}");
        prop_assert!(equal(expected.demand.packets, found.demand.packets), "{expected:?} {found:?}");
    }

    #[test]
    fn whatever_hosts_tell_levels_and_shares_stay_within_their_bounds(
        tells in prop::collection::vec((0..3u32, 0.0..1e18f64, 0.0..1e18f64, 0.0..1e18f32, -1e18..1e18f32, 0.0..3.0), 1..50),
    ) {
        let (mut replica, mut counts, terms, mut now) = (replica(), Counts::of(1), Terms::default(), 0.0);
        for (birth, offered, admitted, own, level, passed) in tells {
            now += passed;
            let told = Told { name: secret().name(&key()), birth, offered, admitted, own, level };
            if let Merged::Grown(grown) = counts.merge(&told, true, true, now) {
                replica.hear(&told, &grown, 100.0, &terms, now);
            }
            let others = |name: &Name| counts.get(name).map(|entry| (100.0, *entry)).into_iter().collect();
            let report = message(5.0, 1.0, 5.0, 1);
            let (answer, told) = replica.report(&secret(), &report, &terms, others, now).unwrap();
            prop_assert!(answer.share.is_none_or(|share| (terms.least..=1.0).contains(&share)));
            prop_assert!(told.level.is_finite() && told.level >= -5.0 * 1_000.0);
            // A host that begins later with the same tells is not worse off.
            let mut later = Replica::new(0);
            let others = |name: &Name| counts.get(name).map(|entry| (100.0, *entry)).into_iter().collect();
            let (answer, _) = later.report(&secret(), &report, &terms, others, now).unwrap();
            prop_assert!(answer.share.is_none_or(|share| (terms.least..=1.0).contains(&share)));
        }
    }
}

#[test]
fn a_host_that_reports_later_begins_with_the_level_and_the_demand_of_the_others() {
    let (mut first, mut counts, terms) = (replica(), Counts::of(0), Terms::default());
    let report = |offered, admitted| message(offered, admitted, offered, 1);
    let (_, told) = first.report(&secret(), &report(600.0, 400.0), &terms, |_| Vec::new(), 0.0).unwrap();
    counts.merge(&told, true, true, 0.0);
    let mut second = Replica::new(0);
    let others = |name: &Name| counts.get(name).map(|entry| (1.0, *entry)).into_iter().collect();
    second.report(&secret(), &message(600.0, 0.0, 600.0, 0), &terms, others, 0.0);
    let record = second.record(&secret(), &key()).unwrap();
    // A burst of 100 and a period of 200 packets, of which the first host has admitted 400.
    assert_eq!((record.level, record.demand.packets), (-100.0, 1_200.0));
}

#[test]
fn records_that_mean_nothing_are_forgotten_and_their_number_is_bounded() {
    let (mut replica, terms, secret) = (Replica::new(0), Terms::default(), secret());
    let report = |source: u32| Message { key: Key::of(&source.to_string(), &LIMIT), ..message(9.0, 9.0, 9.0, 0) };
    for source in 0..MOST as u32 {
        assert!(replica.report(&secret, &report(source), &terms, |_| Vec::new(), 0.0).is_some());
    }
    assert!(replica.report(&secret, &report(u32::MAX), &terms, |_| Vec::new(), 0.0).is_none());
    replica.forget(&terms, 0.9);
    assert_eq!(replica.records.len(), MOST);
    replica.forget(&terms, 60.0);
    assert_eq!((replica.records.len(), replica.names.len()), (0, 0));
    assert!(replica.report(&secret, &report(u32::MAX), &terms, |_| Vec::new(), 60.0).is_some());
}
