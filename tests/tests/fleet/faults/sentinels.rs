//! Hosts whose engine is a server that sentinels know.

use ratelimit_tests::{Arrivals, Hosts, Sentinels};

use super::COUNT;
use crate::stage::{RATE, Traffic, alone, list, one_limit, outage, wait, with_daemons_by};

#[test]
#[ignore = "slow: cargo xtask faults"]
fn sentinels_promote_a_replica_and_hosts_share_again() {
    let _alone = alone();
    let hosts = Hosts::new(COUNT);
    let mut sentinels = hosts.sentinels();
    let keys = format!(
        "engine = [{}]\nservers = \"sentinel\"\nmaster = \"{}\"\n",
        list(&Sentinels::urls("redis")),
        Sentinels::MASTER
    );
    with_daemons_by(
        &hosts,
        |_| keys.clone(),
        |daemons| {
            for daemon in daemons.iter_mut() {
                let line = daemon.line();
                assert!(line.ends_with("answers: limits are shared"), "{line}");
            }
            let traffic = Traffic::begin(&hosts, &[3 * RATE; COUNT]);
            wait(4.0);
            let before = traffic.seconds(2);
            one_limit(&before, 0.1);
            let begin = Arrivals::now();
            sentinels.master = None;
            wait(14.0);
            let (all, after) = (traffic.seconds(14), traffic.seconds(2));
            let recovered = traffic.shared_after(begin, 14);
            println!("a failover by sentinels: {all:.2?} of the limit, shared again after {recovered:.1} s");
            one_limit(&after, 0.1);
            drop(traffic);
            for daemon in daemons {
                let lines = outage(daemon);
                let is_told_once = lines[0].contains("local limits apply") && lines[1].contains("answers again");
                assert!(is_told_once, "{lines:?}");
            }
        },
    );
}
