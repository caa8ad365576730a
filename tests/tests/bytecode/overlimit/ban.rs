//! Bans of sources that exceed their limit.

use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::{BANNED_ID, Policy},
    },
    maps::event,
    reason::Reason,
    rules::rule::{BANNED, Rule},
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::{batch, list},
};
use ratelimit_tests::{Bytecode, Frame, Verdict, per_second};

use super::{ADDRESS, BAN, TEN_MINUTES, exceed, frame};
use crate::front::{Front, with_and_without_cells};

/// Loads a limit of five packets per second with a ban of ten minutes.
fn load(front: Front) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { bans: true, ..front.settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", Policy { ban: BAN, ..per_second(5, 5) });
    bytecode
}

/// Returns how many ban events the program has written.
fn ban_events(bytecode: &Bytecode) -> usize {
    bytecode.tables.events.open().unwrap().iter().filter(|event| event.as_ref().unwrap().kind == event::BANNED).count()
}

/// Returns a program with a limit of DNS, and a DNS packet of a banned source.
fn banned_from_dns(front: Front) -> (Bytecode, Vec<u8>) {
    let mut bytecode = Bytecode::with(Settings { services: true, bans: true, ..front.settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default udp/53", Policy { ban: BAN, ..per_second(5, 5) });
    let dns = Frame::udp(ADDRESS, 53).bytes();
    while bytecode.send(&dns) == Verdict::Pass {}
    (bytecode, dns)
}

fn a_source_over_its_limit_is_banned_until_the_ban_expires(front: Front) {
    let bytecode = &mut load(front);
    exceed(bytecode, ADDRESS);
    // Its limit alone would admit packets again.
    for seconds in [5, 60, 590] {
        bytecode.set_time(SECOND + seconds * SECOND);
        assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned, "{seconds} s");
        // The next address is not banned.
        assert_eq!(bytecode.reason(&frame([192, 0, 2, 2])), Reason::WithinLimit, "{seconds} s");
    }
    bytecode.set_time(SECOND + TEN_MINUTES);
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::WithinLimit);
}

/// A ban depends on neither the bucket nor the cell.
fn a_ban_survives_the_eviction_of_buckets_and_cells(front: Front) {
    let bytecode = &mut load(front);
    exceed(bytecode, ADDRESS);
    bytecode.forget();
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned);
    let bans = bytecode.tables.bans().unwrap().all();
    let [(source, Rule { policy: BANNED_ID, origin: BANNED, expires, .. })] = bans[..] else { panic!("{bans:?}") };
    assert_eq!((source, expires), (Source::v4(ADDRESS), SECOND + TEN_MINUTES));
    assert_eq!(ban_events(bytecode), 1);
}

fn lifting_a_ban_or_setting_a_rule_applies_to_the_next_packet(front: Front) {
    let target = "192.0.2.1";
    for allow in [false, true] {
        let bytecode = &mut load(front);
        exceed(bytecode, ADDRESS);
        assert_eq!(bytecode.reason(&frame(ADDRESS)), if front.is_on() { Reason::OverPackets } else { Reason::Banned });
        bytecode.set_time(2 * SECOND);
        assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned);
        let expected = if allow {
            bytecode.set(target, Policy::ALLOWED);
            Reason::Allowed
        } else {
            batch::delete(&mut bytecode.tables, target.parse().unwrap()).unwrap();
            Reason::WithinLimit
        };
        assert_eq!(bytecode.reason(&frame(ADDRESS)), expected);
        assert!(bytecode.tables.bans().unwrap().all().is_empty());
    }
}

fn lifting_a_ban_keeps_the_rule_of_the_source(front: Front) {
    let target = "192.0.2.1".parse().unwrap();
    let mut bytecode = load(front);
    bytecode.set("192.0.2.1", Policy { ban: BAN, ..per_second(5, 5) });
    exceed(&bytecode, ADDRESS);
    bytecode.set_time(2 * SECOND);
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned);
    batch::lift_ban(&mut bytecode.tables, target).unwrap();
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::WithinLimit);
    assert!(bytecode.tables.bans().unwrap().all().is_empty());
    assert!(list::get(&bytecode.tables, target).unwrap().is_some(), "the limit was removed with the ban");
}

/// Another service can reuse its class later.
fn a_ban_is_removed_with_the_last_rule_of_its_service(front: Front) {
    let (mut bytecode, _) = banned_from_dns(front);
    assert_eq!(bytecode.tables.bans().unwrap().all().len(), 1);
    bytecode.delete("default udp/53");
    assert!(bytecode.tables.bans().unwrap().all().is_empty());
}

fn a_ban_covers_only_the_service_of_its_limit(front: Front) {
    let (mut bytecode, dns) = banned_from_dns(front);
    bytecode.set_time(30 * SECOND);
    assert_eq!(bytecode.reason(&dns), Reason::Banned);
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::WithinLimit);
}

/// The source owes under the old limit. Behind a cell, that debt may be a neighbour's. So the source must have had its own
/// half of the burst before it is banned.
fn after_a_change_of_the_limit_half_a_burst_passes_before_a_ban_at_most(front: Front) {
    for own in [0, 1_000] {
        let mut bytecode = Bytecode::with(Settings { bans: true, own, ..front.settings() });
        bytecode.set_time(SECOND);
        let slow = Rate { amount: 3, period: 60 * SECOND };
        bytecode.set("default", Limit { packets: Some(slow), ..Limit::default() }.policy().unwrap());
        exceed(&bytecode, ADDRESS);
        bytecode.set("default", Policy { ban: BAN, ..per_second(10, 10) });
        let mut tenths = 0;
        while bytecode.reason(&frame(ADDRESS)) != Reason::Banned {
            if bytecode.reason(&frame(ADDRESS)) == Reason::OverPackets {
                tenths += 1;
                bytecode.set_time(SECOND + tenths * SECOND / 10);
            }
        }
        assert!(tenths <= if front.is_on() { 6 } else { 1 }, "{tenths}");
    }
}

/// The new bucket starts with the offender's debt, since both share a cell.
fn a_source_is_never_banned_for_packets_of_its_cell_neighbour(front: Front) {
    let mut bytecode = Bytecode::with(Settings { cells: u32::from(front.is_on()), bans: true, ..front.settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", Policy { ban: BAN, ..per_second(10, 10) });
    for _ in 0..20 {
        let _ = bytecode.send(&frame(ADDRESS));
    }
    let neighbour = [192, 0, 2, 7];
    let expected = if front.is_on() { Reason::OverPackets } else { Reason::WithinLimit };
    assert_eq!(bytecode.reason(&frame(neighbour)), expected);
    for round in 1..=50 {
        bytecode.set_time(SECOND + round * SECOND / 5);
        let _ = bytecode.send(&frame(ADDRESS));
        assert_ne!(bytecode.reason(&frame(neighbour)), Reason::Banned, "round {round}");
    }
    let bans: Vec<_> = bytecode.tables.bans().unwrap().all().into_iter().map(|(source, _)| source).collect();
    assert_eq!(bans, [Source::v4(ADDRESS)]);
}

with_and_without_cells!(
    a_source_over_its_limit_is_banned_until_the_ban_expires,
    a_ban_survives_the_eviction_of_buckets_and_cells,
    lifting_a_ban_or_setting_a_rule_applies_to_the_next_packet,
    lifting_a_ban_keeps_the_rule_of_the_source,
    a_ban_is_removed_with_the_last_rule_of_its_service,
    a_ban_covers_only_the_service_of_its_limit,
    after_a_change_of_the_limit_half_a_burst_passes_before_a_ban_at_most,
    a_source_is_never_banned_for_packets_of_its_cell_neighbour,
);
