//! Sources that are shut out for a time, because they have exceeded a limit that says so.

use ratelimit::dataplane::{program::loader::Settings, rules::list};
use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::SECOND,
        policy::{BANNED_ID, Ban, Policy},
    },
    maps::{control::Control, event, names},
    reason::Reason,
    rules::rule::{BANNED, Rule},
};
use ratelimit_tests::{Bytecode, Frame, Verdict, per_second};

const ADDRESS: [u8; 4] = [192, 0, 2, 1];
const TEN_MINUTES: u64 = 600 * SECOND;
/// At the first packet that is dropped, and as long each time.
const BAN: Ban = Ban { time: TEN_MINUTES, most: TEN_MINUTES, after: 1, reserved: 0 };

/// Five packets a second, and ten minutes for whoever sends more.
fn load() -> Bytecode {
    let mut bytecode = Bytecode::with(crate::settings());
    bytecode.set_time(SECOND);
    bytecode.set("default", Policy { ban: BAN, ..per_second(5, 5) });
    bytecode
}

fn frame(address: [u8; 4]) -> Vec<u8> {
    Frame::udp(address, 9).bytes()
}

/// Sends until the limit refuses.
fn exceed(bytecode: &Bytecode, address: [u8; 4]) {
    let reasons = [0; 6].map(|_| bytecode.reason(&frame(address)));
    assert_eq!(reasons[5], Reason::OverPackets);
}

/// Makes as many bans as there can be, of other sources.
fn fill(bytecode: &mut Bytecode, expires: u64) {
    let ban = Rule { policy: BANNED_ID, prefix: 32, origin: BANNED, reserved: 0, expires };
    for number in 0..names::BANS_MAX {
        bytecode.tables.bans.insert(Source::v4((0x0a00_0000 + number).to_be_bytes()), ban, 0).unwrap();
    }
}

/// How many bans the program has told of.
fn bans_told(bytecode: &Bytecode) -> usize {
    bytecode.tables.events.iter().filter(|event| event.as_ref().unwrap().kind == event::BANNED).count()
}

/// A limit of DNS alone, and a source that has exceeded it, with a packet of its DNS.
fn banned_from_dns() -> (Bytecode, Vec<u8>) {
    let mut bytecode = Bytecode::with(Settings { services: true, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default udp/53", Policy { ban: BAN, ..per_second(5, 5) });
    let dns = Frame::udp(ADDRESS, 53).bytes();
    while bytecode.send(&dns) == Verdict::Pass {}
    (bytecode, dns)
}

#[test]
fn a_source_that_exceeds_its_limit_is_shut_out_and_let_in_again_on_time() {
    let bytecode = &mut load();
    exceed(bytecode, ADDRESS);
    // Its limit alone would let it send again by now.
    for seconds in [5, 60, 590] {
        bytecode.set_time(SECOND + seconds * SECOND);
        assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned, "{seconds} s");
        // Its neighbour is none of that.
        assert_eq!(bytecode.reason(&frame([192, 0, 2, 2])), Reason::WithinLimit, "{seconds} s");
    }
    bytecode.set_time(SECOND + TEN_MINUTES);
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::WithinLimit);
}

/// Neither its bucket nor its cell has to remember.
#[test]
fn a_ban_outlasts_everything_that_traffic_can_evict() {
    let bytecode = &mut load();
    exceed(bytecode, ADDRESS);
    bytecode.forget();
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned);
    let bans = bytecode.tables.bans().unwrap();
    let [(source, Rule { policy: BANNED_ID, origin: BANNED, expires, .. })] = bans[..] else { panic!("{bans:?}") };
    assert_eq!((source, expires), (Source::v4(ADDRESS), SECOND + TEN_MINUTES));
    assert_eq!(bans_told(bytecode), 1);
}

#[test]
fn a_lifted_ban_and_any_rule_of_the_operator_act_on_the_next_packet() {
    let target = "192.0.2.1";
    for allow in [false, true] {
        let bytecode = &mut load();
        exceed(bytecode, ADDRESS);
        assert_eq!(bytecode.reason(&frame(ADDRESS)), if crate::FRONT { Reason::OverPackets } else { Reason::Banned });
        bytecode.set_time(2 * SECOND);
        assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned);
        let expected = if allow {
            bytecode.set(target, Policy::ALLOWED);
            Reason::Allowed
        } else {
            list::delete(&mut bytecode.tables, target.parse().unwrap()).unwrap();
            Reason::WithinLimit
        };
        assert_eq!(bytecode.reason(&frame(ADDRESS)), expected);
        assert!(bytecode.tables.bans().unwrap().is_empty());
    }
}

#[test]
fn lifting_a_ban_keeps_the_rule_of_the_operator() {
    let target = "192.0.2.1".parse().unwrap();
    let mut bytecode = load();
    bytecode.set("192.0.2.1", Policy { ban: BAN, ..per_second(5, 5) });
    exceed(&bytecode, ADDRESS);
    bytecode.set_time(2 * SECOND);
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::Banned);
    list::lift_ban(&mut bytecode.tables, target).unwrap();
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::WithinLimit);
    assert!(bytecode.tables.bans().unwrap().is_empty());
    assert!(list::get(&bytecode.tables, target).unwrap().is_some(), "the limit is gone with the ban");
}

#[test]
fn commands_clear_away_bans_that_have_ended() {
    let mut bytecode = load();
    fill(&mut bytecode, 1);
    let control = Control { clear_after: 1, ..bytecode.tables.control().unwrap() };
    bytecode.tables.set_control(&control).unwrap();
    bytecode.set("198.51.100.0/24", per_second(5, 5));
    assert!(bytecode.tables.bans().unwrap().is_empty());
    exceed(&bytecode, ADDRESS);
    assert_eq!(bytecode.tables.bans().unwrap().len(), 1);
}

/// Another service may have its class one day.
#[test]
fn a_ban_goes_with_the_last_rule_of_its_service() {
    let (mut bytecode, _) = banned_from_dns();
    assert_eq!(bytecode.tables.bans().unwrap().len(), 1);
    bytecode.delete("default udp/53");
    assert!(bytecode.tables.bans().unwrap().is_empty());
}

/// Where there is no room for one more ban, that is counted, and the limit still holds.
#[test]
fn with_the_map_of_bans_full_a_source_stays_under_its_limit() {
    let bytecode = &mut load();
    fill(bytecode, u64::MAX);
    exceed(bytecode, ADDRESS);
    assert_eq!(bytecode.cpus().iter().map(|cpu| cpu.bans_failed).sum::<u64>(), 1);
    assert_eq!(bans_told(bytecode), 0);
    assert_eq!(bytecode.send(&frame(ADDRESS)), Verdict::Drop);
    bytecode.set_time(2 * SECOND);
    let passed =
        [0; 8].map(|_| bytecode.send(&frame(ADDRESS))).iter().filter(|verdict| **verdict == Verdict::Pass).count();
    assert_eq!(passed, 5);
    assert_eq!(bytecode.count(Reason::Banned), 0);
}

#[test]
fn a_ban_is_for_what_its_limit_is_about() {
    let (mut bytecode, dns) = banned_from_dns();
    bytecode.set_time(30 * SECOND);
    assert_eq!(bytecode.reason(&dns), Reason::Banned);
    assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::WithinLimit);
}

/// What its new bucket owes is the offender's debt, as far as anybody can tell.
#[test]
fn nobody_is_banned_for_what_a_neighbour_has_sent() {
    let mut bytecode = Bytecode::with(Settings { cells: u32::from(crate::FRONT), ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", Policy { ban: BAN, ..per_second(10, 10) });
    for _ in 0..20 {
        let _ = bytecode.send(&frame(ADDRESS));
    }
    let neighbour = [192, 0, 2, 7];
    let expected = if crate::FRONT { Reason::OverPackets } else { Reason::WithinLimit };
    assert_eq!(bytecode.reason(&frame(neighbour)), expected);
    for round in 1..=50 {
        bytecode.set_time(SECOND + round * SECOND / 5);
        let _ = bytecode.send(&frame(ADDRESS));
        assert_ne!(bytecode.reason(&frame(neighbour)), Reason::Banned, "round {round}");
    }
    let bans: Vec<_> = bytecode.tables.bans().unwrap().into_iter().map(|(source, _)| source).collect();
    assert_eq!(bans, [Source::v4(ADDRESS)]);
}
