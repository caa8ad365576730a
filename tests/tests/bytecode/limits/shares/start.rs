//! A source that a host has not seen begins with its part of the burst, if the hosts of a fleet divide it.

use ratelimit::dataplane::leases::{Grant, Leases};
use ratelimit_common::{
    fleet::lease::EVERY_SOURCE,
    limits::{
        limit::SECOND,
        policy::{Policy, STARTS_SMALL},
    },
};
use ratelimit_tests::{Bytecode, per_second};

use super::{ADDRESS, FOREVER, GAP, START, assert_near, load, passed};
use crate::front::{Front, with_and_without_cells};

const OTHER: [u8; 4] = [192, 0, 2, 77];
const THIRD: [u8; 4] = [192, 0, 2, 99];

/// Loads a limit of 1,000 packets per second and a burst of 100, which begins with a part if `starts_small`.
fn begin(front: Front, starts_small: bool) -> (Bytecode, Leases) {
    let limit = per_second(1_000, 100);
    load(front, &Policy { flags: limit.flags | if starts_small { STARTS_SMALL } else { 0 }, ..limit }.for_start())
}

/// Divides bursts among so many hosts until `end`.
fn divide(leases: &Leases, hosts: f64, end: u64) {
    assert!(leases.grant(&Grant { hash: EVERY_SOURCE, share: 1.0 / hosts, end, states: [0; 2] }, START));
}

/// Returns what a flood of a tenth of a second is admitted, without what the rate admits.
fn burst(bytecode: &mut Bytecode, address: [u8; 4], begin: u64) -> u64 {
    passed(bytecode, address, begin, begin + SECOND / 10).saturating_sub(100)
}

fn a_new_source_begins_with_a_part_and_an_idle_one_has_the_whole(front: Front) {
    for (hosts, part) in [(1.0, 100), (3.0, 33), (4.0, 25), (50.0, 2)] {
        let (mut bytecode, leases) = begin(front, true);
        divide(&leases, hosts, FOREVER);
        assert_near(burst(&mut bytecode, ADDRESS, START), part);
        assert_near(burst(&mut bytecode, ADDRESS, START + SECOND), 100);
        assert_near(burst(&mut bytecode, OTHER, START + SECOND), part);
    }
}

fn without_a_running_lease_each_source_begins_with_the_whole(front: Front) {
    let (mut bytecode, leases) = begin(front, true);
    assert_near(burst(&mut bytecode, ADDRESS, START), 100);
    divide(&leases, 4.0, START + SECOND);
    assert_near(burst(&mut bytecode, OTHER, START + SECOND / 2), 25);
    assert_near(burst(&mut bytecode, THIRD, START + SECOND + GAP), 100);
}

fn a_limit_that_is_not_shared_begins_with_the_whole(front: Front) {
    let (mut bytecode, leases) = begin(front, false);
    divide(&leases, 4.0, FOREVER);
    assert_near(burst(&mut bytecode, ADDRESS, START), 100);
}

with_and_without_cells!(
    a_new_source_begins_with_a_part_and_an_idle_one_has_the_whole,
    without_a_running_lease_each_source_begins_with_the_whole,
    a_limit_that_is_not_shared_begins_with_the_whole,
);
