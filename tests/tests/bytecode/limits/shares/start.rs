//! A source that a host has not seen begins with its part of the burst, if the hosts of a fleet divide it.

use ratelimit_common::{fleet::lease::EVERY_SOURCE, limits::limit::SECOND, reason::Reason};
use ratelimit_dataplane::{
    leases::{Grant, Leases},
    program::loader::Settings,
};
use ratelimit_tests::{Bytecode, per_second};

use super::{ADDRESS, FOREVER, GAP, START, assert_near, load_with, passed};
use crate::front::{Front, with_and_without_cells};

const OTHER: [u8; 4] = [192, 0, 2, 77];
const THIRD: [u8; 4] = [192, 0, 2, 99];

/// Loads a limit of 1,000 packets per second with a burst of 100.
fn begin(front: Front) -> (Bytecode, Leases) {
    load_with(Settings { divide: true, ..front.settings() }, &per_second(1_000, 100))
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
    for (hosts, part) in [(1.0, 100), (3.0, 33), (4.0, 25), (50.0, 2), (1e9, 1)] {
        let (mut bytecode, leases) = begin(front);
        divide(&leases, hosts, FOREVER);
        assert_near(burst(&mut bytecode, ADDRESS, START), part);
        assert_near(burst(&mut bytecode, ADDRESS, START + SECOND), 100);
        assert_near(burst(&mut bytecode, OTHER, START + SECOND), part);
    }
}

fn a_source_within_its_part_loses_nothing_and_needs_no_bucket(front: Front) {
    let (mut bytecode, leases) = begin(front);
    divide(&leases, 4.0, FOREVER);
    // Half of the limit, and each packet is one of ten.
    let mut passed_packets = 0;
    for number in 0..500 {
        let now = START + number * SECOND / 500;
        passed_packets += passed(&mut bytecode, ADDRESS, now, now + 1);
    }
    assert_eq!((passed_packets, bytecode.count(Reason::OverPackets)), (500, 0));
    if front.settings().cells != 0 {
        assert_eq!(ratelimit_dataplane::readings::tracked::buckets_in_use(&bytecode.tables).unwrap(), 0);
    }
}

fn the_burst_of_a_slow_limit_has_room_for_one_packet(front: Front) {
    let (mut bytecode, leases) = load_with(Settings { divide: true, ..front.settings() }, &per_second(4, 4));
    divide(&leases, 100.0, FOREVER);
    assert_eq!(passed(&mut bytecode, ADDRESS, START, START + SECOND / 10), 1);
    // The rest is paid by time.
    assert_near(passed(&mut bytecode, ADDRESS, START + 10 * SECOND, START + 11 * SECOND), 8);
}

fn without_a_running_lease_each_source_begins_with_the_whole(front: Front) {
    let (mut bytecode, leases) = begin(front);
    assert_near(burst(&mut bytecode, ADDRESS, START), 100);
    divide(&leases, 4.0, START + SECOND);
    assert_near(burst(&mut bytecode, OTHER, START + SECOND / 2), 25);
    assert_near(burst(&mut bytecode, THIRD, START + SECOND + GAP), 100);
}

fn a_source_that_was_busy_before_gains_nothing(front: Front) {
    let (mut bytecode, leases) = begin(front);
    assert_near(burst(&mut bytecode, ADDRESS, START), 100);
    divide(&leases, 4.0, FOREVER);
    assert_near(burst(&mut bytecode, ADDRESS, START + SECOND / 10), 0);
    leases.end(EVERY_SOURCE);
    assert_near(burst(&mut bytecode, ADDRESS, START + 2 * SECOND / 10), 0);
}

fn a_limit_of_its_own_begins_with_the_whole(front: Front) {
    let (mut bytecode, leases) = begin(front);
    bytecode.set("192.0.2.77", per_second(1_000, 50));
    divide(&leases, 4.0, FOREVER);
    assert_near(burst(&mut bytecode, OTHER, START), 50);
    assert_near(burst(&mut bytecode, ADDRESS, START), 25);
}

fn a_sampled_source_begins_with_a_part_too(front: Front) {
    let settings = Settings { divide: true, sample: true, leases: true, injected_tick: GAP, ..front.settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(START);
    bytecode.set_default(&per_second(100_000, 10_000));
    let leases = Leases::open(&bytecode.tables).unwrap();
    divide(&leases, 4.0, FOREVER);
    // One of 256 packets is a sample, and makes a bucket before the part is spent.
    let admitted = passed(&mut bytecode, ADDRESS, START, START + 1);
    assert_eq!(admitted, 1);
    let frame = ratelimit_tests::Frame::udp(ADDRESS, 9).bytes();
    let admitted: u32 = (0..12_000).map(|_| u32::from(bytecode.send(&frame) == ratelimit_tests::Verdict::Pass)).sum();
    assert!((2_490..=2_510).contains(&admitted), "{admitted}");
}

with_and_without_cells!(
    a_new_source_begins_with_a_part_and_an_idle_one_has_the_whole,
    a_source_within_its_part_loses_nothing_and_needs_no_bucket,
    the_burst_of_a_slow_limit_has_room_for_one_packet,
    without_a_running_lease_each_source_begins_with_the_whole,
    a_source_that_was_busy_before_gains_nothing,
    a_limit_of_its_own_begins_with_the_whole,
    a_sampled_source_begins_with_a_part_too,
);
