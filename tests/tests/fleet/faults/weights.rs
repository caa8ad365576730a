//! Hosts whose demand counts differently.

use ratelimit_tests::Hosts;

use crate::stage::{RATE, Traffic, alone, at_the_server, wait, with_daemons_by};

/// Seconds after the first packet that do not count, since each host admits its own burst first.
const FIRST: usize = 5;
/// Seconds of which the mean counts.
const SECONDS: usize = 30;

#[test]
#[ignore = "slow: cargo xtask faults"]
fn hosts_with_weights_of_one_and_four_get_a_fifth_and_four_fifths_of_the_limit() {
    let _alone = alone();
    let hosts = Hosts::new(2);
    let _redis = hosts.redis(&[]);
    let keys = |number: usize| at_the_server(number, &format!("weight = {}\n", [1, 4][number]));
    with_daemons_by(&hosts, keys, |_| {
        let traffic = Traffic::begin(&hosts, &[5 * RATE; 2]);
        let all = FIRST + SECONDS;
        wait(all as f64);
        let [light, heavy] = [0, 1].map(|host| {
            let seconds = traffic.seconds_of(host, all as u32);
            seconds[FIRST..].iter().sum::<f64>() / SECONDS as f64
        });
        let ratio = heavy / light;
        println!("weights of 1 and 4: {light:.3} and {heavy:.3} of the limit, {ratio:.2} times as much");
        // The level swings with the reports of the heavy host. The light one profits from that, by a tenth at most.
        assert!((3.4..=4.2).contains(&ratio), "{ratio}");
        assert!((0.97..=1.03).contains(&(light + heavy)), "{light} and {heavy}");
    });
}
