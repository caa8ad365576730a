//! Simulated fleets hold one limit together.

use ratelimit_tests::fleet::{
    Run,
    scenario::{Scenario, Traffic},
};

/// Every host is offered ten times the limit.
fn flood(hosts: usize) -> Scenario {
    Scenario::new(hosts, Traffic::Each(10.0))
}

#[test]
fn three_hosts_admit_the_limit_from_the_third_second_on() {
    let run = Run::of(&flood(3));
    assert!(run.deviation(2..60) <= 0.05, "{:?}", run.rates().collect::<Vec<_>>());
    assert!((run.mean(10..60) - 1.0).abs() < 0.005);
}

#[test]
fn fleets_of_any_size_admit_the_limit_and_are_never_silent_for_long() {
    for hosts in [1, 10, 100, 1_000] {
        let run = Run::of(&flood(hosts));
        let mean = run.mean(10..60);
        assert!((mean - 1.0).abs() <= 0.05 && run.silence() < 2.0, "{hosts} hosts: {mean}, {} s", run.silence());
    }
}

#[test]
fn a_source_below_its_limit_loses_nothing() {
    for hosts in [1, 3, 100] {
        assert_eq!(Run::of(&Scenario::new(hosts, Traffic::All(0.9))).refused(), 0.0, "{hosts} hosts");
    }
}

#[test]
fn a_source_just_above_its_limit_gets_it() {
    for hosts in [1, 3, 100] {
        let mean = Run::of(&Scenario::new(hosts, Traffic::All(1.2))).mean(10..60);
        assert!((mean - 1.0).abs() < 0.01, "{hosts} hosts: {mean}");
    }
}

#[test]
fn a_source_that_reaches_one_host_alone_gets_the_whole_limit() {
    for hosts in [1, 3, 100] {
        let mean = Run::of(&Scenario::new(hosts, Traffic::Alone(10.0))).mean(2..60);
        assert!(mean >= 0.99, "{hosts} hosts: {mean}");
    }
}

#[test]
fn hosts_of_four_times_the_weight_admit_four_times_as_much() {
    for (hosts, expected) in [(3, 2.0), (10, 4.0), (100, 4.0)] {
        let ratio = Run::of(&Scenario { weight: 4.0, ..flood(hosts) }).odd_to_even();
        assert!((ratio / expected - 1.0).abs() <= 0.05, "{hosts} hosts: {ratio}");
    }
}

#[test]
fn without_the_engine_each_host_has_its_own_limit_and_afterwards_all_share_it_again() {
    for seconds in [1, 10, 60] {
        let end = 20 + seconds;
        let run = Run::of(&Scenario { loss: 20.0..end as f64, seconds: end + 10, ..flood(3) });
        // Shares hold for 0.8 s without the engine.
        assert!(run.rates().all(|rate| rate <= 3.1));
        assert!(seconds == 1 || run.mean(21..end) >= 2.99, "{seconds} s");
        assert!(run.mean(end..end + 1) <= 2.0, "{seconds} s: {:?}", run.rates().skip(end).collect::<Vec<_>>());
        assert!(run.settled(end..end + 10, 0.05) <= 2, "{seconds} s");
    }
}

#[test]
fn hosts_that_join_or_leave_change_the_sum_for_a_moment_only() {
    let run = Run::of(&Scenario::new(10, Traffic::Visit(10.0, [20.0, 40.0])));
    let settled = [run.settled(20..40, 0.05), run.settled(40..60, 0.05)];
    assert!(settled.iter().all(|seconds| *seconds <= 5), "{settled:?}");
    assert!(run.deviation(26..40) <= 0.05 && run.deviation(46..60) <= 0.05);
}
