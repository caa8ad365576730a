//! Hosts whose engine is a cluster, of which one server fails.

use ratelimit_common::fleet::share::Limit;
use ratelimit_fleet::key::Key;
use ratelimit_tests::{Arrivals, Hosts};

use crate::stage::{RATE, SOURCE, Traffic, alone, list, one_limit, wait, with_daemons_by};

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_replica_takes_the_place_of_a_server_and_hosts_share_again() {
    let _alone = alone();
    let hosts = Hosts::new(3);
    let mut cluster = hosts.cluster();
    let urls = list(&cluster.urls());
    with_daemons_by(
        &hosts,
        |_| format!("engine = [{urls}]\nservers = \"cluster\"\n"),
        |daemons| {
            for daemon in daemons.iter_mut() {
                let line = daemon.line();
                assert!(line.ends_with("answers: limits are shared"), "{line}");
            }
            let traffic = Traffic::begin(&hosts, &[3 * RATE; 3]);
            wait(5.0);
            let before = traffic.seconds(2);
            one_limit(&before, 0.1);
            let begin = Arrivals::now();
            let limit = Limit { rate: RATE as f64, burst: 100.0 };
            cluster.kill_server_of(Key::of(&SOURCE.to_string(), &limit).as_str());
            wait(12.0);
            let after = traffic.seconds(2);
            let recovered = traffic.shared_after(begin, 12);
            println!("a failover in a cluster: shared again after {recovered:.1} s, then {after:?}");
            one_limit(&after, 0.1);
        },
    );
}
