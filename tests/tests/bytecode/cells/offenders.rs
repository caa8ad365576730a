//! Several sources over their limit in one cell: which cached refusals drop them, and what is counted.

use std::thread;

use ratelimit_common::{identity::source::Source, limits::limit::SECOND, reason::Reason};
use ratelimit_dataplane::{program::loader::Settings, readings::tracked};
use ratelimit_tests::{Bytecode, Frame, per_second};

use super::{hourly, of_cpus, repeated, sharing};

fn frame(address: [u8; 4]) -> Vec<u8> {
    Frame::udp(address, 9).bytes()
}

/// Packets of each source until a refusal is cached.
const FIRST: u32 = 3;

/// Returns sources of one cell that have spent their limit. One packet of the first has passed; the others start with
/// its debt.
fn offenders(settings: Settings, count: usize) -> (Bytecode, Vec<[u8; 4]>) {
    let mut bytecode = Bytecode::with(settings);
    bytecode.set("default", hourly(1));
    bytecode.set_time(SECOND);
    let addresses = sharing(&bytecode, count);
    for address in &addresses {
        bytecode.repeat(&frame(*address), FIRST);
    }
    (bytecode, addresses)
}

/// Returns dropped packets and bytes of a source as they are listed.
fn listed(bytecode: &Bytecode, address: [u8; 4]) -> (u64, u64) {
    let tracked = tracked::all(&bytecode.tables).unwrap();
    let found = tracked.iter().find(|(source, _)| *source == Source::v4(address));
    found.map(|(_, bucket)| (bucket.over_limit(), bucket.dropped().bytes)).unwrap()
}

/// Sends packets of all sources in turn.
fn send_in_turns(bytecode: &Bytecode, addresses: &[[u8; 4]], packets: u64) {
    for _ in 0..packets {
        for address in addresses {
            assert_eq!(bytecode.reason(&frame(*address)), Reason::OverPackets);
        }
    }
}

#[test]
fn two_offenders_are_dropped_by_cached_refusals_and_counted_exactly() {
    let (bytecode, addresses) = offenders(crate::settings(), 2);
    let before = repeated(&bytecode);
    send_in_turns(&bytecode, &addresses, 200);
    assert_eq!(repeated(&bytecode), before + 400, "the program asked buckets despite cached refusals");
    assert_eq!(bytecode.count(Reason::WithinLimit), 1);
    for (address, passed) in addresses.into_iter().zip([1, 0]) {
        let dropped = u64::from(FIRST) - passed + 200;
        assert_eq!(listed(&bytecode, address), (dropped, dropped * frame(address).len() as u64));
    }
}

/// The third source replaces a cached refusal once in sixteen refusals. With a limit of unknown sources, a cell caches
/// one refusal less.
#[test]
fn with_more_offenders_than_cached_refusals_all_are_dropped_and_few_refusals_are_displaced() {
    let limited = Settings { unknown: 1_000_000, ..crate::settings() };
    for (settings, count) in [(crate::settings(), 3), (limited, 2)] {
        let (bytecode, addresses) = offenders(settings, count);
        send_in_turns(&bytecode, &addresses, 1_600);
        let displaced = of_cpus(&bytecode, |cpu| cpu.displaced_refusals);
        assert!((50..=200).contains(&displaced), "{count} offenders: {displaced}");
    }
}

#[test]
fn a_new_refusal_takes_the_place_of_an_ended_one() {
    let (mut bytecode, addresses) = offenders(crate::settings(), 2);
    let newcomer = sharing(&bytecode, 3)[2];
    bytecode.repeat(&frame(addresses[0]), 100);
    let before = listed(&bytecode, addresses[0]);
    bytecode.tables.renew().unwrap();
    bytecode.repeat(&frame(newcomer), 12);
    assert_eq!(listed(&bytecode, addresses[0]), before);
    assert_eq!(listed(&bytecode, newcomer).0, 12);
    assert_eq!(of_cpus(&bytecode, |cpu| cpu.displaced_refusals), 0);
}

/// Packets that a cell admitted before belong to other sources.
#[test]
fn a_new_source_is_not_credited_with_packets_of_other_sources() {
    let mut bytecode = Bytecode::with(Settings { sample: false, ..crate::settings() });
    bytecode.set("default", hourly(100));
    bytecode.set_time(SECOND);
    let addresses = sharing(&bytecode, 4);
    for address in &addresses {
        bytecode.repeat(&frame(*address), 200);
    }
    let passed = |address: &[u8; 4]| bytecode.bucket(Source::v4(*address)).unwrap().passed();
    assert_eq!(passed(&addresses[0]), 100);
    assert_eq!(addresses.iter().map(passed).sum::<u64>(), bytecode.count(Reason::WithinLimit));
}

/// During a flood, one of 64 packets is counted for all of them.
#[test]
fn drops_of_two_offenders_on_two_cpus_are_listed_within_one_percent() {
    let mut bytecode = Bytecode::with_kernel_clock_and(Settings { sample: false, ..crate::settings() });
    bytecode.set("default", per_second(100_000, 10));
    let addresses = sharing(&bytecode, 2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    for address in &addresses {
                        bytecode.repeat(&frame(*address), 100);
                    }
                }
            });
        }
    });
    let dropped = bytecode.count(Reason::OverPackets);
    let sum: u64 = addresses.iter().map(|address| listed(&bytecode, *address).0).sum();
    println!("{sum} drops are listed of {dropped}");
    assert!(dropped > 400_000 && sum.abs_diff(dropped) <= dropped / 100, "{sum} of {dropped}");
}
