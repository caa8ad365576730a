//! Several offenders in one cell: whom notes drop, and what is counted.

use ratelimit::dataplane::object::Settings;
use ratelimit_common::{dropped::Dropped, limit::SECOND, reason::Reason, source::Source};
use ratelimit_tests::{Bytecode, Frame};

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
