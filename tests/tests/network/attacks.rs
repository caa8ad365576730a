//! The attacks of the library, each within its bound.

use ratelimit_tests::attacks::ALL;

use crate::receiver::alone;

/// Plays an attack and asserts its bound.
fn assert_held(name: &str) {
    let _alone = alone();
    let attack = ALL.iter().find(|attack| attack.name == name).unwrap();
    let row = (attack.play)();
    println!("{row:?}");
    assert_eq!(row.problem(), None, "{row:?}");
}

/// Makes a test of each attack.
macro_rules! attacks {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                assert_held(stringify!($name));
            }
        )+

        #[test]
        fn every_attack_has_a_test() {
            let mut tests = [$(stringify!($name)),+];
            let mut attacks = ALL.map(|attack| attack.name);
            tests.sort_unstable();
            attacks.sort_unstable();
            assert_eq!(tests, attacks);
        }
    };
}

attacks!(
    new_sources,
    new_sources_with_unknown_limited,
    addresses_of_one_source,
    customer,
    customer_with_a_parent,
    ban_table,
    contention,
    answers,
    resets,
    link_discovery,
    link_discovery_elsewhere,
    joined_packets,
    malformed,
    fragments,
    disguises,
    new_sources_beside_a_list,
    new_sources_of_icmp,
    known_sources,
    patient_known_sources,
    syns_with_cookies,
    guessed_cookies,
    syns_of_one_victim,
    repeated_cookie,
    slow_limit,
    deleted_slow_limit,
    spent_budget,
    spent_budget_below_a_parent,
    recycled_bucket_below_a_parent,
    raw_ip,
    raw_ip_behind_tags,
);
