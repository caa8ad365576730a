//! Several sources over their limit in one cell: which cached refusals drop them, and what is counted.

use std::thread;

use ratelimit::dataplane::program::loader::Settings;
use ratelimit::dataplane::readings::tracked;
use ratelimit_common::{
    cells::dropped::Dropped,
    identity::source::Source,
    limits::{limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Frame, per_second};

use super::{cell_entry_of, cell_of, hourly, of_cpus, sharing};

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
    found.map(|(_, bucket)| (bucket.over_limit(), bucket.dropped_bytes)).unwrap()
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
    let buckets = || addresses.iter().map(|address| bytecode.bucket(Source::v4(*address)).unwrap()).collect::<Vec<_>>();
    let before = buckets();
    send_in_turns(&bytecode, &addresses, 500);
    assert_eq!(buckets(), before, "the program read buckets despite cached refusals");
    assert_eq!(bytecode.count(Reason::WithinLimit), 1);
    for (address, passed) in addresses.into_iter().zip([1, 0]) {
        let dropped = u64::from(FIRST) - passed + 500;
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

/// A cached refusal may still hold drop counts after it has expired or its rule has changed.
#[test]
fn a_new_refusal_replaces_an_entry_without_a_drop_count() {
    let (mut bytecode, addresses) = offenders(crate::settings(), 1);
    let newcomer = sharing(&bytecode, 2)[1];
    bytecode.repeat(&frame(addresses[0]), 1_000);
    let before = listed(&bytecode, addresses[0]);
    bytecode.tables.renew().unwrap();
    bytecode.repeat(&frame(newcomer), 12);
    assert_eq!(listed(&bytecode, addresses[0]), before);
    assert_eq!(listed(&bytecode, newcomer).0, 12);
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

/// Two CPUs that write cached refusals of one cell at the same time can lose some drops.
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
    println!("{} of {dropped} drops are not listed", dropped - sum);
    assert!(dropped > 400_000 && sum <= dropped && sum >= dropped - dropped / 100, "{sum} of {dropped}");
}

/// A flood can fill the single word that counts packets and bytes.
#[test]
fn a_full_drop_count_is_moved_to_the_bucket() {
    let (mut bytecode, addresses) = offenders(crate::settings(), 1);
    let (address, before) = (addresses[0], (1 << 23) - 1);
    let (frame, source) = (frame(address), Source::v4(address));
    let length = frame.len() as u64;
    let mut cell = cell_entry_of(&bytecode, &source);
    let noted = cell.refusals.iter_mut().find(|noted| noted.dropped != 0).unwrap();
    noted.dropped = before * Dropped::one(frame.len() as u32);
    let index = cell_of(&bytecode, &source);
    bytecode.tables.front.open_mut().unwrap().set(index, cell, 0).unwrap();
    assert_eq!(listed(&bytecode, address), (before + 1, (before + 1) * length));
    for sent in 1..=3 {
        assert_eq!(bytecode.reason(&frame), Reason::OverPackets);
        assert_eq!(listed(&bytecode, address), (before + 1 + sent, (before + 1 + sent) * length), "after {sent}");
    }
    // The first drop fills the counter, the second moves it to the bucket, and the cached refusal counts the third.
    assert_eq!(bytecode.bucket(source).unwrap().over_limit(), before + 3);
}

/// Without a bucket, the cached refusal still drops packets.
#[test]
fn a_full_drop_count_without_a_bucket_is_discarded() {
    let mut bytecode = Bytecode::with(Settings { admissions: 0, ..crate::settings() });
    let (address, source) = ([192, 0, 2, 1], Source::v4([192, 0, 2, 1]));
    bytecode.set("192.0.2.1", Policy::DENIED);
    bytecode.set_time(SECOND);
    let frame = frame(address);
    bytecode.send(&frame);
    let mut cell = cell_entry_of(&bytecode, &source);
    cell.refusals[0].dropped = (1 << 23) * Dropped::one(frame.len() as u32);
    let index = cell_of(&bytecode, &source);
    bytecode.tables.front.open_mut().unwrap().set(index, cell, 0).unwrap();
    bytecode.repeat(&frame, 11);
    assert_eq!(bytecode.count(Reason::Denied), 12);
    assert_eq!(Dropped(cell_entry_of(&bytecode, &source).refusals[0].dropped).packets(), 10);
}
