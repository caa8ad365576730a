//! Filters of buckets: a source without a bucket needs no look-up, and no source loses its bucket by that.

use std::net::Ipv6Addr;

use ratelimit_common::{
    cells::bucket_filter::FIRST_EPOCH, identity::source::Source, limits::limit::SECOND, reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Order, Sources, Verdict, Walker, per_second};

use super::{of_cpus, stay_on_one_cpu};

/// Buckets, and so new buckets of one epoch.
const BUCKETS: u32 = 1 << 10;
const ADDRESS: [u8; 4] = [192, 0, 2, 1];

/// Returns a program that creates one bucket per second. The source has spent its burst, of which half is its cell's.
fn with_one_bucket() -> Bytecode {
    stay_on_one_cpu();
    let settings = Settings { admissions: 1, buckets: BUCKETS, sample: false, ..crate::settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1, 10));
    for _ in 0..10 {
        assert_eq!(reason(&bytecode), Reason::WithinLimit);
    }
    assert_eq!(reason(&bytecode), Reason::OverPackets);
    // Without the cached refusal, each packet asks for the bucket.
    bytecode.tables.renew().unwrap();
    bytecode
}

fn reason(bytecode: &Bytecode) -> Reason {
    bytecode.reason(&Frame::udp(ADDRESS, 9).bytes())
}

/// Sets the running epoch.
fn set_epoch(bytecode: &mut Bytecode, epoch: u64) {
    bytecode.tables.created.open_mut().unwrap().set(0, epoch * u64::from(BUCKETS), 0).unwrap();
}

#[test]
fn a_bucket_of_the_last_two_epochs_is_asked_and_an_older_one_needs_the_budget() {
    for (later, asked) in [(0, true), (1, true), (2, false), (3, false), (127, false), (128, true), (129, true)] {
        let mut bytecode = with_one_bucket();
        set_epoch(&mut bytecode, FIRST_EPOCH + later);
        let expected = if asked { Reason::OverPackets } else { Reason::NotAdmitted };
        assert_eq!(reason(&bytecode), expected, "{later} epochs later");
    }
}

/// A bucket that was not used for long has kept its debt, and is found when it is made again.
#[test]
fn a_bucket_that_the_filter_has_forgotten_is_not_made_anew() {
    let mut bytecode = with_one_bucket();
    let (source, created) = (Source::v4(ADDRESS), of_cpus(&bytecode, |cpu| cpu.admitted));
    let before = bytecode.bucket(source).unwrap();
    set_epoch(&mut bytecode, FIRST_EPOCH + 2);
    // The budget has one bucket again. One token of the limit has come back, too.
    bytecode.set_time(2 * SECOND);
    assert_eq!(reason(&bytecode), Reason::WithinLimit);
    assert_eq!(reason(&bytecode), Reason::OverPackets);
    let after = bytecode.bucket(source).unwrap();
    assert_eq!((after.passed(), after.over_limit()), (before.passed() + 1, before.over_limit() + 1));
    assert_eq!((of_cpus(&bytecode, |cpu| cpu.admitted), of_cpus(&bytecode, |cpu| cpu.failed)), (created, 0));
}

/// The budget is spent when the source of such a bucket sends its burst. Its bucket pays for it, and not the cell alone.
#[test]
fn a_bucket_that_the_filter_has_forgotten_gives_no_second_burst() {
    let mut bytecode = with_one_bucket();
    bytecode.set_time(100 * SECOND);
    let other = Frame::udp([198, 51, 100, 1], 9).bytes();
    assert_eq!(bytecode.repeat(&other, 10), Verdict::Pass);
    set_epoch(&mut bytecode, FIRST_EPOCH + 2);
    for _ in 0..10 {
        assert_eq!(reason(&bytecode), Reason::WithinLimit);
    }
    assert_eq!(reason(&bytecode), Reason::OverPackets);
    // A second later, the budget has one bucket again.
    bytecode.tables.renew().unwrap();
    bytecode.set_time(101 * SECOND);
    assert_eq!(reason(&bytecode), Reason::WithinLimit);
    assert_eq!(reason(&bytecode), Reason::OverPackets);
}

#[test]
fn a_source_that_uses_its_bucket_in_each_epoch_stays_known() {
    let mut bytecode = with_one_bucket();
    for epoch in FIRST_EPOCH..FIRST_EPOCH + 600 {
        set_epoch(&mut bytecode, epoch);
        assert_eq!(reason(&bytecode), Reason::OverPackets, "epoch {epoch}");
        bytecode.tables.renew().unwrap();
    }
}

/// After a resize or an upgrade, the filters are empty while buckets exist.
#[test]
fn in_the_first_epochs_after_the_filters_were_lost_every_bucket_is_asked() {
    for epoch in 0..FIRST_EPOCH {
        let mut bytecode = with_one_bucket();
        let front = bytecode.tables.front.open_mut().unwrap();
        for index in 0..front.len() {
            let cell = front.get(&index, 0).unwrap();
            front.set(index, ratelimit_common::cells::cell::Cell { filters: [0; 2], ..cell }, 0).unwrap();
        }
        set_epoch(&mut bytecode, epoch);
        assert_eq!(reason(&bytecode), Reason::OverPackets);
    }
}

#[test]
fn new_buckets_end_epochs() {
    stay_on_one_cpu();
    let settings = Settings { admissions: 1_000_000, buckets: BUCKETS, sample: false, ..crate::settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1, 1));
    let mut walker = Walker::new(9, 0);
    walker.lead_to(bytecode.program());
    let created = |bytecode: &Bytecode| bytecode.tables.created.open().unwrap().get(&0, 0).unwrap();
    assert_eq!(created(&bytecode), FIRST_EPOCH * u64::from(BUCKETS));
    walker.run(Sources::Endless, Order::InTurn, 10_000);
    let made = of_cpus(&bytecode, |cpu| cpu.admitted);
    assert!(made > 5_000, "{made}");
    assert_eq!(created(&bytecode), FIRST_EPOCH * u64::from(BUCKETS) + made / 64 * 64);
}

/// Its packets are billed to a wider service, whose bucket the filter knows.
#[test]
fn a_source_keeps_its_bucket_in_the_filter_with_services_lanes_and_ipv6() {
    stay_on_one_cpu();
    let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
    let frame = Frame::udp(address, 53).bytes();
    let settings = Settings { admissions: 4, services: true, lanes: true, sample: false, ..crate::settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    bytecode.set("default udp", per_second(1, 10));
    bytecode.set("default tcp/443", per_second(5, 10));
    for _ in 0..10 {
        assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
    }
    assert_eq!(bytecode.reason(&frame), Reason::OverPackets);
    // Others spend the budget.
    for number in 0..50u8 {
        bytecode.repeat(&Frame::udp([198, 51, 100, number], 53).bytes(), 20);
    }
    assert!(bytecode.count(Reason::NotAdmitted) > 0);
    for _ in 0..10 {
        bytecode.tables.renew().unwrap();
        assert_eq!(bytecode.reason(&frame), Reason::OverPackets);
    }
}
