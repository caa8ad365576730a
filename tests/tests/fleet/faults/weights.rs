//! Hosts whose demand counts differently.

use ratelimit_tests::Hosts;

use crate::stage::{RATE, Traffic, alone, at_the_server, wait, with_daemons_by};

/// Seconds of which the mean counts.
const SECONDS: u32 = 20;

#[test]
#[ignore = "slow: cargo xtask faults"]
fn hosts_with_weights_of_one_and_four_get_a_fifth_and_four_fifths_of_the_limit() {
    let _alone = alone();
    let hosts = Hosts::new(2);
    let _redis = hosts.redis(&[]);
    let keys = |number: usize| at_the_server(number, &format!("weight = {}\n", [1, 4][number]));
    with_daemons_by(&hosts, keys, |_| {
        let traffic = Traffic::begin(&hosts, &[5 * RATE; 2]);
        wait(5.0 + f64::from(SECONDS));
        let [light, heavy] =
            [0, 1].map(|host| traffic.seconds_of(host, SECONDS).iter().sum::<f64>() / f64::from(SECONDS));
        println!("weights of 1 and 4: {light:.3} and {heavy:.3} of the limit, {:.2} times as much", heavy / light);
        // Parts of two hosts swing with the time between their reports.
        assert!((light - 0.2).abs() <= 0.05 && (heavy - 0.8).abs() <= 0.05, "{light} and {heavy}");
        assert!((0.97..=1.03).contains(&(light + heavy)), "{light} and {heavy}");
    });
}
