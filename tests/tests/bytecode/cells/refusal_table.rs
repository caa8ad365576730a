//! The table of refusals in front of the cells.

use std::net::Ipv6Addr;

use ratelimit_common::{
    cells::cell::Cell,
    identity::source::Source,
    limits::{limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, per_second};

use super::{hourly, repeated};

const IPV4: [u8; 4] = [192, 0, 2, 7];
const IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);

/// Packets after which a refusal is in the table.
const FIRST: u32 = 3;

/// Forgets cells and buckets, and keeps the table.
fn forget_cells(bytecode: &mut Bytecode) {
    let sources: Vec<_> = bytecode.tables.buckets.open().unwrap().keys().map(Result::unwrap).collect();
    for source in sources {
        bytecode.tables.buckets.open_mut().unwrap().remove(&source).unwrap();
    }
    for index in 0..bytecode.tables.front.open().unwrap().len() {
        bytecode.tables.front.open_mut().unwrap().set(index, Cell::default(), 0).unwrap();
    }
}

#[test]
fn the_table_refuses_without_a_cell_and_a_bucket_until_a_rule_changes_or_its_end() {
    let frames = [Frame::udp(IPV4, 9).bytes(), Frame::udp(IPV6, 9).bytes()];
    for (policy, reason) in [(hourly(1), Reason::OverPackets), (Policy::DENIED, Reason::Denied)] {
        for frame in &frames {
            let mut bytecode = Bytecode::with(Settings { cells: 16, ..crate::settings() });
            bytecode.set_time(SECOND);
            bytecode.set("default", policy);
            bytecode.repeat(frame, FIRST);
            forget_cells(&mut bytecode);
            let before = repeated(&bytecode);
            assert_eq!(bytecode.reason(frame), reason);
            assert_eq!(repeated(&bytecode), before + 1, "a cell or a bucket was asked");
            // Another rule changes nothing for the source, but the table waits for a new refusal.
            bytecode.set("203.0.113.9", Policy::ALLOWED);
            assert_eq!(bytecode.reason(frame), if reason == Reason::Denied { reason } else { Reason::WithinLimit });
            bytecode.delete("default");
            assert_eq!(bytecode.reason(frame), Reason::WithinLimit);
        }
    }
}

/// An end in the table lies at most 69 seconds ahead, and its line follows the time.
#[test]
fn a_source_is_refused_for_as_long_as_its_limit_says_however_often_it_sends() {
    for gap in [SECOND / 100, 3 * SECOND, 20 * SECOND, 33 * SECOND, 40 * SECOND, 70 * SECOND] {
        let mut bytecode = Bytecode::with(crate::settings());
        let (begin, hour) = (SECOND, 3_600 * SECOND);
        bytecode.set_time(begin);
        bytecode.set("default", hourly(1));
        let frame = Frame::udp(IPV4, 9).bytes();
        assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
        let mut sent = 1;
        for now in (1..).map(|number| begin + number * gap).take_while(|now| *now < begin + hour).take(20_000) {
            bytecode.set_time(now);
            assert_eq!(bytecode.reason(&frame), Reason::OverPackets, "{} ms", (now - begin) / 1_000_000);
            sent += 1;
        }
        let bucket = bytecode.bucket(Source::v4(IPV4)).unwrap();
        assert_eq!((bucket.passed(), bucket.over_limit()), (1, sent - 1));
        bytecode.set_time(begin + hour);
        assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
    }
}

/// Of many sources in one line, some have no place. Cells and buckets refuse these.
#[test]
fn sources_beyond_the_places_of_the_table_keep_their_limits() {
    let mut bytecode = Bytecode::with(Settings { refusals: 1 << 13, buckets: 1 << 17, ..crate::settings() });
    bytecode.set_admissions(u64::MAX);
    bytecode.set_time(SECOND);
    bytecode.set("default", hourly(2));
    let frame = |number: u32| Frame::udp((0x0a00_0000 + number).to_be_bytes(), 9).bytes();
    let passed = |bytecode: &Bytecode| bytecode.count(Reason::WithinLimit);
    for number in 0..70_000 {
        bytecode.repeat(&frame(number), 3);
    }
    let before = passed(&bytecode);
    assert!(before <= 140_000, "{before}");
    for number in 0..70_000 {
        assert_eq!(bytecode.reason(&frame(number)), Reason::OverPackets, "{number}");
    }
    assert_eq!(passed(&bytecode), before);
}

/// While the budget for buckets is spent, a source behind a full cell is refused for a quarter of a second, or until the
/// cell has room.
#[test]
fn a_source_that_was_not_admitted_asks_again_after_a_quarter_of_a_second_or_when_its_cell_has_room() {
    let frame = Frame::udp(IPV4, 9).bytes();
    for (policy, refused_for, then) in
        [(hourly(4), SECOND / 4, Reason::NotAdmitted), (per_second(20, 4), SECOND / 20, Reason::WithinLimit)]
    {
        let mut bytecode = Bytecode::with(Settings { sample: false, admissions: 0, ..crate::settings() });
        bytecode.set_time(SECOND);
        bytecode.set("default", policy);
        bytecode.repeat(&frame, 4);
        assert_eq!(bytecode.count(Reason::WithinLimit), 4);
        assert_eq!(bytecode.reason(&frame), Reason::NotAdmitted);
        let before = repeated(&bytecode);
        bytecode.set_time(SECOND + refused_for - (2 << 20));
        assert_eq!(bytecode.reason(&frame), Reason::NotAdmitted);
        assert_eq!(repeated(&bytecode), before + 1, "the cell was asked");
        bytecode.set_time(SECOND + refused_for + 1);
        assert_eq!(bytecode.reason(&frame), then);
        assert_eq!(repeated(&bytecode), before + 1, "the table has refused for too long");
    }
}
