//! Several offenders in one cell: whom notes drop, and what is counted.

use std::thread;

use ratelimit::dataplane::program::loader::Settings;
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

/// Packets of each offender until it is noted.
const FIRST: u32 = 3;

/// So many sources of one cell that have spent their limit. Of the first, one packet has passed; the others begin with what it owes.
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

/// Packets and bytes that were dropped of a source, as they are listed.
fn listed(bytecode: &Bytecode, address: [u8; 4]) -> (u64, u64) {
    let tracked = bytecode.tables.tracked().unwrap();
    let found = tracked.iter().find(|(source, _)| *source == Source::v4(address));
    found.map(|(_, bucket)| (bucket.dropped_packets, bucket.dropped_bytes)).unwrap()
}

/// Sends so many packets of each, one at a time.
fn send_in_turns(bytecode: &Bytecode, addresses: &[[u8; 4]], packets: u64) {
    for _ in 0..packets {
        for address in addresses {
            assert_eq!(bytecode.reason(&frame(*address)), Reason::OverPackets);
        }
    }
}

#[test]
fn two_offenders_are_dropped_by_notes_and_counted_exactly() {
    let (bytecode, addresses) = offenders(crate::settings(), 2);
    let buckets = || addresses.iter().map(|address| bytecode.bucket(Source::v4(*address)).unwrap()).collect::<Vec<_>>();
    let before = buckets();
    send_in_turns(&bytecode, &addresses, 500);
    assert_eq!(buckets(), before, "notes did not spare the buckets");
    assert_eq!(bytecode.count(Reason::WithinLimit), 1);
    for (address, passed) in addresses.into_iter().zip([1, 0]) {
        let dropped = u64::from(FIRST) - passed + 500;
        assert_eq!(listed(&bytecode, address), (dropped, dropped * frame(address).len() as u64));
    }
}

/// The third takes a note once in sixteen refusals, and then another one is the third. One note is less where strangers are limited.
#[test]
fn of_more_offenders_than_notes_all_are_dropped_and_few_lose_their_note() {
    let limited = Settings { strangers: 1_000_000, ..crate::settings() };
    for (settings, count) in [(crate::settings(), 3), (limited, 2)] {
        let (bytecode, addresses) = offenders(settings, count);
        send_in_turns(&bytecode, &addresses, 1_600);
        let displaced = of_cpus(&bytecode, |cpu| cpu.displaced);
        assert!((50..=200).contains(&displaced), "{count} offenders: {displaced}");
    }
}

/// A note that has ended, or whose rule has changed, may still have what it counted.
#[test]
fn a_new_offender_takes_the_place_that_has_no_count() {
    let (mut bytecode, addresses) = offenders(crate::settings(), 1);
    let newcomer = sharing(&bytecode, 2)[1];
    bytecode.repeat(&frame(addresses[0]), 1_000);
    let before = listed(&bytecode, addresses[0]);
    bytecode.tables.renew().unwrap();
    bytecode.repeat(&frame(newcomer), 12);
    assert_eq!(listed(&bytecode, addresses[0]), before);
    assert_eq!(listed(&bytecode, newcomer).0, 12);
}

/// What is in a cell when a source comes to it has been admitted to others.
#[test]
fn a_newcomer_is_not_credited_with_what_others_were_admitted() {
    let mut bytecode = Bytecode::with(Settings { sample: false, ..crate::settings() });
    bytecode.set("default", hourly(100));
    bytecode.set_time(SECOND);
    let addresses = sharing(&bytecode, 4);
    for address in &addresses {
        bytecode.repeat(&frame(*address), 200);
    }
    let passed = |address: &[u8; 4]| bytecode.bucket(Source::v4(*address)).unwrap().passed_packets;
    assert_eq!(passed(&addresses[0]), 100);
    assert_eq!(addresses.iter().map(passed).sum::<u64>(), bytecode.count(Reason::WithinLimit));
}

/// Who is refused may be lost between two CPUs that write notes into a cell at the same time, and some packets with it.
#[test]
fn on_two_cpus_the_drops_of_two_offenders_are_listed_but_for_a_few() {
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

/// Packets and bytes are counted in one word, which a flood could fill.
#[test]
fn a_count_that_is_full_is_moved_to_the_bucket() {
    let (mut bytecode, addresses) = offenders(crate::settings(), 1);
    let (address, before) = (addresses[0], (1 << 23) - 1);
    let (frame, source) = (frame(address), Source::v4(address));
    let length = frame.len() as u64;
    let mut cell = cell_entry_of(&bytecode, &source);
    let noted = cell.notes.iter_mut().find(|noted| noted.dropped != 0).unwrap();
    noted.dropped = before * Dropped::one(frame.len() as u32);
    let index = cell_of(&bytecode, &source);
    bytecode.tables.front.set(index, cell, 0).unwrap();
    assert_eq!(listed(&bytecode, address), (before + 1, (before + 1) * length));
    for sent in 1..=3 {
        assert_eq!(bytecode.reason(&frame), Reason::OverPackets);
        assert_eq!(listed(&bytecode, address), (before + 1 + sent, (before + 1 + sent) * length), "after {sent}");
    }
    // The first filled it, the second moved it, and the third is counted by the note again.
    assert_eq!(bytecode.bucket(source).unwrap().dropped_packets, before + 3);
}

/// Where there is no bucket to move it to, the note still goes on.
#[test]
fn a_full_count_of_a_source_without_a_bucket_is_given_up() {
    let mut bytecode = Bytecode::with(Settings { admissions: 0, ..crate::settings() });
    let (address, source) = ([192, 0, 2, 1], Source::v4([192, 0, 2, 1]));
    bytecode.set("192.0.2.1", Policy::DENIED);
    bytecode.set_time(SECOND);
    let frame = frame(address);
    bytecode.send(&frame);
    let mut cell = cell_entry_of(&bytecode, &source);
    cell.notes[0].dropped = (1 << 23) * Dropped::one(frame.len() as u32);
    bytecode.tables.front.set(cell_of(&bytecode, &source), cell, 0).unwrap();
    bytecode.repeat(&frame, 11);
    assert_eq!(bytecode.count(Reason::Denied), 12);
    assert_eq!(Dropped(cell_entry_of(&bytecode, &source).notes[0].dropped).packets(), 10);
}
