//! Hosts whose demand counts differently.

use ratelimit_tests::Hosts;

use crate::stage::{RATE, Traffic, alone, at_the_server, wait, with_daemons_by};

/// Seconds of which the mean counts.
const SECONDS: u32 = 10;

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_host_with_four_times_the_weight_gets_four_times_the_share() {
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
        assert!((3.8..=4.2).contains(&(heavy / light)), "{light} and {heavy}");
        assert!((0.95..=1.05).contains(&(light + heavy)), "{light} and {heavy}");
    });
}
