//! Leases: a source gets its share of a limit on this host until the lease ends, and never more than the limit.

mod places;
mod start;

use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::{Ban, Policy},
    },
    meters::gcra::units,
    reason::Reason,
};
use ratelimit_dataplane::{
    leases::{Grant, Leases},
    program::loader::Settings,
    rules::spec::{ParentLimit, RuleSpec, Scope},
};
use ratelimit_tests::{Bytecode, Frame, Verdict, per_second};

use crate::front::{Front, with_and_without_cells};

const ADDRESS: [u8; 4] = [192, 0, 2, 1];
const START: u64 = 100 * SECOND;
const FOREVER: u64 = u64::MAX;
/// Time between two packets.
const GAP: u64 = SECOND / 10_000;

fn load(front: Front, policy: &Policy) -> (Bytecode, Leases) {
    load_with(front.settings(), policy)
}

/// Loads the program with leases and these settings.
fn load_with(settings: Settings, policy: &Policy) -> (Bytecode, Leases) {
    let settings = Settings { leases: true, sample: false, injected_tick: GAP, ..settings };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(START);
    bytecode.set_default(policy);
    let leases = Leases::open(&bytecode.tables).unwrap();
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
    for (limit, share, rate, burst) in [
        (1_000, 0.25, 250, 25),
        (1_000, 0.01, 10, 1),
        (1_000, 1.0, 1_000, 100),
        (1_000, 7.0, 1_000, 100),
        // Costs above 2^31 units.
        (400, 0.5, 200, 50),
        (300, 0.5, 150, 50),
        (120, 0.5, 60, 50),
        (20, 0.25, 5, 25),
    ] {
        let (mut bytecode, leases) = load(front, &per_second(limit, 100));
        grant(&bytecode, &leases, ADDRESS, share, FOREVER);
        assert_near(passed(&mut bytecode, ADDRESS, START, START + SECOND), burst + rate);
        assert_near(passed(&mut bytecode, ADDRESS, START + SECOND, START + 3 * SECOND), 2 * rate);
        let over = if share < 1.0 { Reason::OverShare } else { Reason::OverPackets };
        assert!(bytecode.count(over) > 10_000, "{limit}/s, {share}");
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
    let settings = Settings { cells: front.settings().cells.min(1), ..Settings::default() };
    let (mut bytecode, leases) = load_with(settings, &per_second(1_000, 100));
    grant(&bytecode, &leases, ADDRESS, 0.001, FOREVER);
    assert!(passed(&mut bytecode, ADDRESS, START, START + SECOND) <= 2);
    assert_near(passed(&mut bytecode, [192, 0, 2, 2], START + SECOND, START + 2 * SECOND), 1_100);
    assert_eq!(bytecode.count(Reason::OverShare), 10_000 - 1);
}

fn a_larger_share_ends_the_wait_of_a_smaller_one(front: Front) {
    for (share, least, most) in [(1.0, 3, 5), (0.5, 1, 3)] {
        let (mut bytecode, leases) = load(front, &per_second(1, 1));
        grant(&bytecode, &leases, ADDRESS, 1e-9, FOREVER);
        // The smallest share is 1/65,536, so this packet is paid in 18 hours.
        assert_eq!(passed(&mut bytecode, ADDRESS, START, START + 2 * SECOND), 1);
        grant(&bytecode, &leases, ADDRESS, share, FOREVER);
        let after = passed(&mut bytecode, ADDRESS, START + 2 * SECOND, START + 7 * SECOND);
        assert!((least..=most).contains(&after), "{share}: {after}");
    }
}

/// A small packet must not take the debt of a large one for that of an earlier share.
fn packets_of_different_sizes_keep_to_one_share(front: Front) {
    let (large, small) = (Frame::udp(ADDRESS, 9).length(1_400).bytes(), Frame::udp(ADDRESS, 9).bytes());
    let rate = Rate { amount: 100_000, period: SECOND };
    let policy = Limit { bytes: Some(rate), ..Limit::default() }.policy().unwrap();
    let settings = Settings { bytes: true, ..front.settings() };
    let (mut bytecode, leases) = load_with(settings, &policy);
    grant(&bytecode, &leases, ADDRESS, 0.01, FOREVER);
    let (mut bytes, seconds) = (0, 20);
    for now in (START..START + seconds * SECOND).step_by(10 * GAP as usize) {
        bytecode.set_time(now);
        for frame in [&large, &small] {
            if bytecode.send(frame) == Verdict::Pass {
                bytes += frame.len() as u64;
            }
        }
    }
    // A hundredth of 100 kB/s, and of the burst of as much.
    let expected = 1_000 * (seconds + 1);
    assert!((expected * 8 / 10..=expected + 2 * large.len() as u64).contains(&bytes), "{bytes}");
}

/// The host bans a source that exceeds its limit, whatever its lease is.
fn a_lease_prevents_no_ban(front: Front) {
    let ban = Ban { time: 600 * SECOND, most: 600 * SECOND, after: 1, reserved: 0 };
    let settings = Settings { bans: true, ..front.settings() };
    let (mut bytecode, leases) = load_with(settings, &Policy { ban, ..per_second(100, 10) });
    grant(&bytecode, &leases, ADDRESS, 0.5, FOREVER);
    assert!(passed(&mut bytecode, ADDRESS, START, START + SECOND / 10) <= 11);
    assert_eq!(passed(&mut bytecode, ADDRESS, START + SECOND, START + 2 * SECOND), 0);
    assert!(bytecode.count(Reason::Banned) > 10_000);
}

/// A lease belongs to the source that is billed, with the service that has a limit.
fn a_lease_of_a_service_slows_only_that(front: Front) {
    let settings = Settings { services: true, lanes: true, ..front.settings() };
    let (mut bytecode, leases) = load_with(settings, &per_second(1_000, 100));
    bytecode.set("default udp/53", per_second(1_000, 100));
    grant(&bytecode, &leases, ADDRESS, 0.1, FOREVER);
    let count = |bytecode: &mut Bytecode, port: u16, begin: u64| {
        let frame = Frame::udp(ADDRESS, port).bytes();
        let mut passed = 0;
        for now in (begin..begin + SECOND).step_by(GAP as usize) {
            bytecode.set_time(now);
            passed += u64::from(bytecode.send(&frame) == Verdict::Pass);
        }
        passed
    };
    assert_near(count(&mut bytecode, 9, START), 110);
    assert_near(count(&mut bytecode, 53, START + SECOND), 1_100);
    let lease = leases.get(hash(&bytecode, ADDRESS)).unwrap();
    assert!(lease.refused.abs_diff(10_000 - 110) <= 1_000, "{}", lease.refused);
}

fn a_denied_source_counts_nothing_in_its_lease(front: Front) {
    let (mut bytecode, leases) = load(front, &per_second(1_000, 100));
    grant(&bytecode, &leases, ADDRESS, 0.1, FOREVER);
    bytecode.set("192.0.2.1", Policy::DENIED);
    assert_eq!(passed(&mut bytecode, ADDRESS, START, START + SECOND), 0);
    let lease = leases.get(hash(&bytecode, ADDRESS)).unwrap();
    assert_eq!((lease.admitted, lease.refused), (0, 0));
}

fn a_lease_that_is_granted_again_after_its_end_begins_anew(front: Front) {
    let (mut bytecode, leases) = load(front, &per_second(1_000, 100));
    grant(&bytecode, &leases, ADDRESS, 0.1, START + SECOND);
    assert_near(passed(&mut bytecode, ADDRESS, START, START + SECOND), 110);
    let now = START + 2 * SECOND;
    bytecode.set_time(now);
    // It begins with the whole burst spent.
    let state = units(now) + per_second(1_000, 100).packets.burst;
    assert!(leases.grant(&Grant { hash: hash(&bytecode, ADDRESS), share: 0.1, end: FOREVER, states: [state; 2] }, now));
    assert_eq!(leases.get(hash(&bytecode, ADDRESS)).unwrap().admitted, 0);
    assert_near(passed(&mut bytecode, ADDRESS, now, now + SECOND), 100);
}

fn what_the_lease_counts_is_what_the_source_got(front: Front) {
    let policy = per_second(1_000, 100);
    let (mut bytecode, leases) = load_with(Settings { bytes: true, ..front.settings() }, &policy);
    grant(&bytecode, &leases, ADDRESS, 0.5, FOREVER);
    let passed = passed(&mut bytecode, ADDRESS, START, START + SECOND);
    let lease = leases.get(hash(&bytecode, ADDRESS)).unwrap();
    assert_eq!(lease.admitted, passed * policy.packets.cost_of(1));
    // Cached refusals are counted by samples.
    let refused = 10_000 - passed;
    assert!(lease.refused.abs_diff(refused) <= refused / 10, "{} instead of {refused}", lease.refused);
    assert_eq!(lease.refused_bytes, lease.refused * Frame::udp(ADDRESS, 9).bytes().len() as u64);
}

/// The lease is charged before the parent refuses the packet.
fn a_lease_is_not_charged_for_what_a_parent_refuses(front: Front) {
    let settings = Settings { parents: true, lanes: true, ..front.settings() };
    let (mut bytecode, leases) = load_with(settings, &Policy::UNLIMITED);
    let policy = per_second(1_000, 100);
    let parents = vec![ParentLimit { scope: Scope::All, policy: per_second(100, 10) }];
    bytecode.set("default", RuleSpec { policy, parents });
    grant(&bytecode, &leases, ADDRESS, 0.5, FOREVER);
    let by_parent = passed(&mut bytecode, ADDRESS, START, START + SECOND);
    assert_near(by_parent, 110);
    let lease = leases.get(hash(&bytecode, ADDRESS)).unwrap();
    assert_eq!(lease.admitted, by_parent * policy.packets.cost_of(1));
    // The lease owes nothing, since the parent admits less than it.
    bytecode.set("default", policy);
    assert_near(passed(&mut bytecode, ADDRESS, START + SECOND, START + 2 * SECOND), 550);
}

fn a_limit_of_bytes_is_shared_too(front: Front) {
    let length = Frame::udp(ADDRESS, 9).bytes().len() as u64;
    let rate = Rate { amount: 1_000 * length, period: SECOND };
    let policy = Limit { bytes: Some(rate), ..Limit::default() }.policy().unwrap();
    let settings = Settings { bytes: true, ..front.settings() };
    let (mut bytecode, leases) = load_with(settings, &policy);
    grant(&bytecode, &leases, ADDRESS, 0.2, FOREVER);
    passed(&mut bytecode, ADDRESS, START, START + 5 * SECOND);
    assert_near(passed(&mut bytecode, ADDRESS, START + 5 * SECOND, START + 7 * SECOND), 400);
    let lease = leases.get(hash(&bytecode, ADDRESS)).unwrap();
    let cost = policy.second.cost_of(length as u32);
    assert!(lease.admitted.is_multiple_of(cost) && lease.admitted / cost >= 1_000, "{}", lease.admitted);
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
    packets_of_different_sizes_keep_to_one_share,
    a_lease_prevents_no_ban,
    a_lease_of_a_service_slows_only_that,
    a_denied_source_counts_nothing_in_its_lease,
    a_lease_that_is_granted_again_after_its_end_begins_anew,
    what_the_lease_counts_is_what_the_source_got,
    a_lease_is_not_charged_for_what_a_parent_refuses,
    a_limit_of_bytes_is_shared_too,
    whatever_a_lease_contains_the_limit_holds,
);
