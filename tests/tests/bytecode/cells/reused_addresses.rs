//! Floods from forged addresses that are used again, against `--unknown`.

use std::thread;

use ratelimit_common::{
    cells::known_source::{KnownSource, LONGEST, SECONDS, second},
    limits::limit::SECOND,
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Clock, Order, Sources, Walker};

use super::{
    of_cpus,
    unknown_sources::{STEP, all, flood, frame, is_known, limited, send_for, two_in_a_cell},
};

/// Packets of all unknown sources per second.
const RATE: u64 = 10_000;
/// Packets that they may send at once.
const BURST: u64 = RATE / 5;
/// Parts of a second.
const PARTS: u32 = 100;

/// Sends one packet from each of `count` addresses within a second, in the same order each time.
fn spread(walker: &mut Walker, clock: &mut Clock, count: u32) {
    for part in 0..PARTS {
        walker.run_part(count, part * count / PARTS, count / PARTS);
        clock.advance(STEP / u64::from(PARTS));
    }
}

/// Sends all of these packets at the start of a second.
fn at_once(walker: &mut Walker, clock: &mut Clock, count: u32) {
    walker.run_part(count, 0, count);
    clock.advance(STEP);
}

/// Returns the number of known sources at present.
fn known(bytecode: &Bytecode) -> u64 {
    let now = second(bytecode.tables.control().unwrap().clock);
    all(bytecode).into_iter().filter(|known| known.is_known() && !known.gives_way(now)).count() as u64
}

/// The addresses send in five seconds. Then they send a million packets.
#[test]
fn of_forged_addresses_that_are_used_again_the_rate_passes() {
    const ADDRESSES: u32 = 200_000;
    for send in [spread, at_once] {
        let bytecode = limited(RATE, 1 << 17);
        let (mut clock, mut walker) = (bytecode.clock(), flood(&bytecode));
        for _ in 0..5 {
            send(&mut walker, &mut clock, ADDRESSES);
        }
        let (earlier, known) = (bytecode.count(Reason::WithinLimit), known(&bytecode));
        for _ in 0..5 {
            send(&mut walker, &mut clock, ADDRESSES);
        }
        let passed = bytecode.count(Reason::WithinLimit) - earlier;
        println!("{known} known sources, and {passed} of a million packets passed");
        let most = BURST + RATE * 5 * STEP / SECOND;
        assert!(passed <= most, "{passed} of a million passed, {most} are allowed");
    }
}

/// Above the rate, on any number of CPUs, an address becomes known only by packets that passed.
#[test]
fn each_known_address_has_passed_three_packets_of_the_rate() {
    let bytecode = limited(RATE, 1 << 17);
    let mut clock = bytecode.clock();
    let mut walkers = [flood(&bytecode), flood(&bytecode)];
    let (count, seconds) = (2 * RATE as u32, 6);
    for _ in 0..seconds {
        for part in 0..PARTS {
            thread::scope(|scope| {
                for walker in &mut walkers {
                    scope.spawn(move || walker.run_part(count, part * count / PARTS, count / PARTS));
                }
            });
            clock.advance(STEP / u64::from(PARTS));
        }
    }
    let known = known(&bytecode);
    // A known source no longer takes from the rate.
    let passed = of_cpus(&bytecode, |cpu| cpu.unknown_passed);
    println!("{known} of {count} addresses are known for {passed} packets");
    assert!(passed >= RATE * seconds * 9 / 10 && known * SECONDS <= passed, "{known} known, {passed} passed");
}

/// Forged addresses send three packets each, below the rate. Established sources are idle for most of the time.
#[test]
fn newcomers_become_known_beside_addresses_that_send_three_packets_each() {
    const ADDRESSES: u32 = 800_000;
    /// Addresses that begin in the same second: with those of the two seconds before, they send 18,000 packets.
    const TOGETHER: u32 = 6_000;
    /// Seconds within which every newcomer must be known.
    const MOST: u64 = 30;
    let bytecode = limited(2 * RATE, 1 << 17);
    let (mut clock, mut walker) = (bytecode.clock(), flood(&bytecode));
    let addresses = two_in_a_cell(&bytecode, 600);
    let (established, newcomers) = addresses.split_at(300);
    send_for(&bytecode, &mut clock, established, LONGEST);
    let mut waits = vec![None; newcomers.len()];
    let seconds = u64::from(ADDRESSES / TOGETHER);
    for now in 0..seconds {
        for part in 0..PARTS {
            for ago in 0..SECONDS.min(now + 1) as u32 {
                let from = (now as u32 - ago) * TOGETHER + part * TOGETHER / PARTS;
                walker.run_part(ADDRESSES, from, TOGETHER / PARTS);
            }
            clock.advance(STEP / u64::from(PARTS));
        }
        if now % 60 == 59 {
            for address in established {
                assert_eq!(bytecode.reason(&frame(*address)), Reason::WithinLimit);
            }
        }
        if now < seconds / 2 {
            continue;
        }
        for (wait, address) in waits.iter_mut().zip(newcomers) {
            assert_eq!(bytecode.reason(&frame(*address)), Reason::WithinLimit);
            if wait.is_none() && is_known(&bytecode, *address) {
                *wait = Some(now - seconds / 2);
            }
        }
    }
    assert_eq!(bytecode.count(Reason::OverUnknown), 0, "the flood stays below the rate");
    let forged = known(&bytecode) - addresses.len() as u64;
    let latest = waits.iter().map(|wait| wait.unwrap_or(u64::MAX)).max();
    println!("{forged} forged addresses are known; the last newcomer was known after {latest:?} seconds");
    assert!(latest <= Some(MOST), "{latest:?} {waits:?}");
    // A flood that has spent the rate refuses neither.
    walker.run(Sources::Endless, Order::InTurn, 100_000);
    for address in &addresses {
        assert_eq!(bytecode.reason(&frame(*address)), Reason::WithinLimit);
    }
    // What the flood has taken is free again within seconds.
    for _ in 0..15 {
        send_for(&bytecode, &mut clock, established, 1);
        clock.advance(STEP);
    }
    assert!(known(&bytecode) <= addresses.len() as u64);
}

/// A known source is forgotten when it has been idle for too long, and never because of others.
#[test]
fn no_flood_displaces_a_known_source() {
    let bytecode = limited(RATE, 1 << 10);
    let (mut clock, mut walker) = (bytecode.clock(), flood(&bytecode));
    let addresses = two_in_a_cell(&bytecode, 500);
    send_for(&bytecode, &mut clock, &addresses, LONGEST);
    let before: Vec<KnownSource> = all(&bytecode).into_iter().filter(|known| known.is_known()).collect();
    assert_eq!(before.len(), addresses.len());
    for seconds in 0..60 {
        spread(&mut walker, &mut clock, if seconds % 2 == 0 { RATE as u32 / 2 } else { 100_000 });
        walker.run(Sources::Endless, Order::InTurn, 10_000);
    }
    let after = all(&bytecode);
    assert!(before.iter().all(|known| after.contains(known)));
    for address in &addresses {
        assert_eq!(bytecode.reason(&frame(*address)), Reason::WithinLimit);
    }
}
