//! What hosts have told of denied sources outlasts the engine, and what a dead host has told does not stay.

use ratelimit_tests::{Hosts, Ratelimit};

use crate::{
    bans::{BANS, await_denied},
    stage::{alone, at_the_server, wait, with_daemons_by},
};

#[test]
#[ignore = "slow: cargo xtask faults"]
fn denied_sources_stay_without_the_engine_and_a_new_engine_hears_of_them_again() {
    let _alone = alone();
    let hosts = Hosts::new(2);
    let redis = hosts.redis(&[]);
    with_daemons_by(
        &hosts,
        |number| at_the_server(number, BANS),
        |daemons| {
            let [one, other] = [0, 1].map(|number| Ratelimit::new(&hosts.hosts[number]));
            one.ok("deny add 198.51.100.7");
            await_denied(&other, &["198.51.100.7"]);
            drop(redis);
            wait(3.0);
            await_denied(&other, &["198.51.100.7"]);
            let redis = hosts.redis(&[]);
            // The new engine hears it again. So the other host hears of its end from there.
            wait(4.0);
            one.ok("deny del 198.51.100.7");
            await_denied(&other, &[]);
            // Without its daemon, the host keeps what it has heard for a minute.
            one.ok("deny add 198.51.100.8");
            await_denied(&other, &["198.51.100.8"]);
            daemons[1].process.child.kill().unwrap();
            daemons[1].process.child.wait().unwrap();
            let list = other.json("list list")[0].clone();
            assert!(list["name"] == "fleet:bans" && list["expires_in_seconds"].as_u64().unwrap() <= 60, "{list}");
            wait(61.0);
            assert!(other.json("list list").as_array().unwrap().is_empty());
            drop(redis);
        },
    );
}
