//! Leases: a source gets its share of a limit on this host until the lease ends, and never more than the limit.

use ratelimit::dataplane::{
    leases::{Grant, Leases},
    program::loader::Settings,
};
use ratelimit_common::{
    cells::bucket_filter::FIRST_EPOCH,
    fleet::lease::WAYS,
    identity::source::Source,
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    meters::gcra::units,
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Frame, Verdict, per_second};

use crate::front::{Front, with_and_without_cells};

const ADDRESS: [u8; 4] = [192, 0, 2, 1];
const START: u64 = 100 * SECOND;
const FOREVER: u64 = u64::MAX;
/// Time between two packets.
const GAP: u64 = SECOND / 10_000;

fn load(front: Front, policy: &Policy) -> (Bytecode, Leases) {
    let settings = Settings { leases: true, sample: false, injected_tick: GAP, ..front.settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(START);
    bytecode.set_default(policy);
    let leases = Leases::open(&bytecode.tables, front.is_on()).unwrap();
    (bytecode, leases)
}

fn hash(bytecode: &Bytecode, address: [u8; 4]) -> u64 {
    Source::v4(address).hash(&bytecode.tables.control().unwrap().seed)
}

/// Grants a source a lease whose meters owe nothing.
fn grant(bytecode: &Bytecode, leases: &Leases, address: [u8; 4], share: f64, end: u64) {
    let now = bytecode.tables.control().unwrap().clock;
    let grant = Grant { hash: hash(bytecode, address), share, end, states: [units(now); 2] };
    assert!(leases.grant(&grant, now));
}

/// Sends a packet at each gap from `begin` to `end`, and returns how many pass.
fn passed(bytecode: &mut Bytecode, address: [u8; 4], begin: u64, end: u64) -> u64 {
    let frame = Frame::udp(address, 9).bytes();
    let mut passed = 0;
    for now in (begin..end).step_by(GAP as usize) {
        bytecode.set_time(now);
        passed += u64::from(bytecode.send(&frame) == Verdict::Pass);
    }
    passed
}

#[track_caller]
fn assert_near(count: u64, expected: u64) {
    assert!(count.abs_diff(expected) <= 1 + expected / 100, "{count} instead of {expected}");
}

fn a_source_gets_its_share_of_rate_and_burst(front: Front) {
    for (share, rate, burst) in [(0.25, 250, 25), (0.01, 10, 1), (1.0, 1_000, 100), (7.0, 1_000, 100)] {
        let (mut bytecode, leases) = load(front, &per_second(1_000, 100));
        grant(&bytecode, &leases, ADDRESS, share, FOREVER);
        assert_near(passed(&mut bytecode, ADDRESS, START, START + SECOND), burst + rate);
        assert_near(passed(&mut bytecode, ADDRESS, START + SECOND, START + 3 * SECOND), 2 * rate);
        let over = if share < 1.0 { Reason::OverShare } else { Reason::OverPackets };
        assert!(bytecode.count(over) > 10_000);
    }
}

fn a_lease_ends_by_itself(front: Front) {
    let (mut bytecode, leases) = load(front, &per_second(1_000, 100));
    grant(&bytecode, &leases, ADDRESS, 0.1, START + SECOND);
    assert_near(passed(&mut bytecode, ADDRESS, START, START + SECOND), 10 + 100);
    let after = passed(&mut bytecode, ADDRESS, START + SECOND, START + 2 * SECOND);
    assert!((1_000..=1_101).contains(&after), "{after}");
    assert_near(passed(&mut bytecode, ADDRESS, START + 2 * SECOND, START + 3 * SECOND), 1_000);
}

fn a_lease_that_is_ended_holds_no_more(front: Front) {
    let (mut bytecode, leases) = load(front, &per_second(1_000, 100));
    grant(&bytecode, &leases, ADDRESS, 0.01, FOREVER);
    assert_near(passed(&mut bytecode, ADDRESS, START, START + SECOND), 11);
    leases.end(hash(&bytecode, ADDRESS));
    // A cached refusal of the lease lasts at most a second.
    let after = passed(&mut bytecode, ADDRESS, START + SECOND, START + 3 * SECOND);
    assert!(after >= 1_000, "{after}");
}

fn a_lease_slows_no_other_source(front: Front) {
    let settings = Settings { cells: if front.is_on() { 1 } else { 0 }, leases: true, ..Settings::default() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(START);
    bytecode.set_default(&per_second(1_000, 100));
    let leases = Leases::open(&bytecode.tables, front.is_on()).unwrap();
    grant(&bytecode, &leases, ADDRESS, 0.001, FOREVER);
    assert!(passed(&mut bytecode, ADDRESS, START, START + SECOND) <= 2);
    assert_near(passed(&mut bytecode, [192, 0, 2, 2], START + SECOND, START + 2 * SECOND), 1_100);
    assert_eq!(bytecode.count(Reason::OverShare), 10_000 - 1);
}

fn a_larger_share_ends_the_wait_of_a_smaller_one(front: Front) {
    let (mut bytecode, leases) = load(front, &per_second(1, 1));
    grant(&bytecode, &leases, ADDRESS, 1e-9, FOREVER);
    // The smallest share is 1/65,536, so this packet is paid in 18 hours.
    assert_eq!(passed(&mut bytecode, ADDRESS, START, START + 2 * SECOND), 1);
    grant(&bytecode, &leases, ADDRESS, 1.0, FOREVER);
    let after = passed(&mut bytecode, ADDRESS, START + 2 * SECOND, START + 6 * SECOND);
    assert!((2..=4).contains(&after), "{after}");
}

fn what_the_lease_counts_is_what_the_source_got(front: Front) {
    let policy = per_second(1_000, 100);
    let (mut bytecode, leases) = load(front, &policy);
    grant(&bytecode, &leases, ADDRESS, 0.5, FOREVER);
    let passed = passed(&mut bytecode, ADDRESS, START, START + SECOND);
    let lease = leases.get(hash(&bytecode, ADDRESS)).unwrap();
    assert_eq!(lease.admitted, passed * policy.packets.cost_of(1));
    // Cached refusals are counted by samples.
    let refused = 10_000 - passed;
    assert!(lease.refused.abs_diff(refused) <= refused / 10, "{} instead of {refused}", lease.refused);
    assert_eq!(lease.refused_bytes, lease.refused * Frame::udp(ADDRESS, 9).bytes().len() as u64);
}

fn a_limit_of_bytes_is_shared_too(front: Front) {
    let length = Frame::udp(ADDRESS, 9).bytes().len() as u64;
    let rate = Rate { amount: 1_000 * length, period: SECOND };
    let policy = Limit { bytes: Some(rate), ..Limit::default() }.policy().unwrap();
    let settings = Settings { leases: true, bytes: true, sample: false, injected_tick: GAP, ..front.settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(START);
    bytecode.set_default(&policy);
    let leases = Leases::open(&bytecode.tables, front.is_on()).unwrap();
    grant(&bytecode, &leases, ADDRESS, 0.2, FOREVER);
    passed(&mut bytecode, ADDRESS, START, START + 5 * SECOND);
    assert_near(passed(&mut bytecode, ADDRESS, START + 5 * SECOND, START + 7 * SECOND), 400);
    let lease = leases.get(hash(&bytecode, ADDRESS)).unwrap();
    assert_eq!(lease.admitted % policy.second.cost_of(length as u32), 0);
}

fn whatever_a_lease_contains_the_limit_holds(front: Front) {
    for (multiplier, state) in [(0, 0), (1, u64::MAX), (u64::MAX, units(START)), (1 << 40, units(START) + 2)] {
        let (mut bytecode, leases) = load(front, &per_second(1_000, 100));
        grant(&bytecode, &leases, ADDRESS, 0.5, FOREVER);
        let map = bytecode.tables.leases.open_mut().unwrap();
        for index in 0..map.len() {
            let lease = map.get(&index, 0).unwrap();
            if lease.source != 0 {
                let changed = ratelimit_common::fleet::lease::Lease { multiplier, packets: state, ..lease };
                map.set(index, changed, 0).unwrap();
            }
        }
        let count = passed(&mut bytecode, ADDRESS, START, START + SECOND);
        assert!(count <= 1_101, "{multiplier}: {count}");
    }
}

with_and_without_cells!(
    a_source_gets_its_share_of_rate_and_burst,
    a_lease_ends_by_itself,
    a_lease_that_is_ended_holds_no_more,
    a_lease_slows_no_other_source,
    a_larger_share_ends_the_wait_of_a_smaller_one,
    what_the_lease_counts_is_what_the_source_got,
    a_limit_of_bytes_is_shared_too,
    whatever_a_lease_contains_the_limit_holds,
);

/// The filters of buckets begin anew, and have the mark again after the next renewal.
#[test]
fn a_renewed_lease_holds_in_each_epoch() {
    let (mut bytecode, leases) = load(Front::On, &per_second(1_000, 100));
    for epoch in FIRST_EPOCH..FIRST_EPOCH + 300 {
        let buckets = 1 << Settings::default().epoch_shift();
        bytecode.tables.created.open_mut().unwrap().set(0, epoch * buckets, 0).unwrap();
        let begin = START + epoch * SECOND;
        grant(&bytecode, &leases, ADDRESS, 0.001, FOREVER);
        assert!(passed(&mut bytecode, ADDRESS, begin, begin + SECOND / 10) <= 1, "epoch {epoch}");
    }
}

#[test]
fn a_place_is_given_to_another_source_only_after_its_lease_has_ended() {
    let (bytecode, leases) = load(Front::On, &per_second(1_000, 100));
    let grant =
        |hash: u64, now: u64| leases.grant(&Grant { hash, share: 0.5, end: START + SECOND, states: [0; 2] }, now);
    // These hashes differ in bits that choose no place.
    let hashes: Vec<_> = (1..=u64::from(WAYS) + 1).map(|number| hash(&bytecode, ADDRESS) ^ number << 20).collect();
    let (last, others) = hashes.split_last().unwrap();
    assert!(others.iter().all(|hash| grant(*hash, START)));
    assert!(!grant(*last, START));
    assert!(grant(others[0], START));
    leases.end(others[1]);
    assert!(grant(*last, START));
    assert!(leases.get(others[1]).is_none() && leases.get(others[0]).is_some());
    assert!(grant(others[1], START + SECOND));
}
