//! Hosts that lose packets of one direction between them and the engine.

use ratelimit_tests::{Hosts, Redis, Way};

use super::fault;

#[test]
#[ignore = "slow: cargo xtask faults"]
fn a_host_that_is_cut_off_in_one_direction_admits_its_own_limit_beside_the_others() {
    for (way, name) in
        [(Way::ToServer, "packets to the server lost"), (Way::FromServer, "packets from the server lost")]
    {
        let lose = |is_lost: bool| {
            move |hosts: &Hosts, redis: Redis| {
                hosts.lose(0, way, is_lost);
                redis
            }
        };
        fault(name, 1, 1.85..=2.1, lose(true), lose(false));
    }
}
