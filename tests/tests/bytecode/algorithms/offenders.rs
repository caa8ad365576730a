//! Bans after so many drops, and for longer each time.

use ratelimit_common::{
    identity::source::Source,
    limits::{
        algorithm::Algorithm,
        limit::{DAY, SECOND},
        policy::{Ban, Policy},
    },
    reason::Reason,
};
use ratelimit_tests::Bytecode;

use super::{ADDRESS, HOUR, MINUTE, frame, limit, load, passed, source};

const AFTER: u32 = 5;
const BAN: Ban = Ban { time: 10 * MINUTE, most: 40 * MINUTE, after: AFTER, reserved: 0 };
const START: u64 = 100 * DAY;

/// Two packets a day, so that whoever has sent them is over its limit all the time.
fn offenders(algorithm: Algorithm) -> Bytecode {
    let mut bytecode = load(Policy { ban: BAN, ..limit(algorithm, 2, DAY) });
    bytecode.set_time(START);
    assert_eq!(passed(&bytecode, &frame(ADDRESS), 2), 2);
    bytecode
}

/// Has so many packets dropped by the limit at this time.
fn drop(bytecode: &mut Bytecode, time: u64, times: u32) {
    bytecode.set_time(time);
    for number in 0..times {
        assert_eq!(bytecode.reason(&frame(ADDRESS)), Reason::OverPackets, "packet {number}");
    }
}

fn is_banned(bytecode: &mut Bytecode, time: u64) -> bool {
    bytecode.set_time(time);
    bytecode.reason(&frame(ADDRESS)) == Reason::Banned
}

/// When its ban ends, if there is one.
fn end(bytecode: &Bytecode) -> Option<u64> {
    let bans = bytecode.tables.bans().unwrap();
    bans.iter().find(|(source, _)| *source == Source::v4(ADDRESS)).map(|(_, ban)| ban.expires)
}

#[test]
fn the_fifth_drop_within_a_minute_bans_and_the_fourth_does_not() {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(algorithm);
        drop(bytecode, START + SECOND, AFTER - 1);
        assert_eq!(end(bytecode), None, "{}", algorithm.name());
        drop(bytecode, START + 2 * SECOND, 1);
        assert_eq!(end(bytecode), Some(START + 2 * SECOND + BAN.time), "{}", algorithm.name());
        assert!(is_banned(bytecode, START + 2 * SECOND), "{}", algorithm.name());
        // Another source has its own count.
        assert_eq!(passed(bytecode, &frame(source(7)), 2 + AFTER - 1), 2, "{}", algorithm.name());
        assert_eq!(bytecode.tables.bans().unwrap().len(), 1, "{}", algorithm.name());
    }
}

#[test]
fn four_drops_a_minute_ban_never() {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(algorithm);
        for minute in 0..30 {
            // A minute begins with its first drop.
            drop(bytecode, START + minute * (MINUTE + SECOND), AFTER - 1);
        }
        assert_eq!(end(bytecode), None, "{}", algorithm.name());
    }
}

#[test]
fn a_minute_begins_with_its_first_drop() {
    for (wait, is_enough) in [(MINUTE - SECOND, true), (MINUTE + SECOND, false)] {
        let bytecode = &mut offenders(Algorithm::TokenBucket);
        drop(bytecode, START, 1);
        drop(bytecode, START + wait / 2, AFTER - 2);
        drop(bytecode, START + wait, 1);
        assert_eq!(end(bytecode).is_some(), is_enough, "{wait} ns");
    }
}

/// No command runs, and no packet but its own.
#[test]
fn a_ban_ends_on_time_by_itself_and_packets_meanwhile_do_not_lengthen_it() {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(algorithm);
        drop(bytecode, START, AFTER);
        let ends = START + BAN.time;
        for second in 0..BAN.time / SECOND {
            assert!(is_banned(bytecode, START + second * SECOND), "{} at {second} s", algorithm.name());
        }
        assert!(is_banned(bytecode, ends - 1), "{}", algorithm.name());
        assert_eq!(end(bytecode), Some(ends), "{}", algorithm.name());
        // Over its limit again, and no more than that: what was dropped while it was banned does not count.
        drop(bytecode, ends, AFTER - 1);
        assert!(!is_banned(bytecode, ends + MINUTE + SECOND), "{}", algorithm.name());
    }
}

#[test]
fn who_offends_again_is_banned_for_twice_as_long_up_to_the_most() {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(algorithm);
        let mut now = START;
        for (number, minutes) in [10, 20, 40, 40, 40].into_iter().enumerate() {
            drop(bytecode, now, AFTER);
            let ends = now + minutes * MINUTE;
            assert_eq!(end(bytecode), Some(ends), "{}, ban {number}", algorithm.name());
            assert!(is_banned(bytecode, ends - 1), "{}, ban {number}", algorithm.name());
            // A little before all is forgiven.
            now = ends + BAN.most - SECOND;
        }
    }
}

#[test]
fn who_was_not_banned_for_as_long_as_the_longest_ban_is_forgiven() {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(algorithm);
        let mut now = START;
        for minutes in [10, 20, 40] {
            drop(bytecode, now, AFTER);
            assert_eq!(end(bytecode), Some(now + minutes * MINUTE), "{}", algorithm.name());
            now += minutes * MINUTE + SECOND;
        }
        now += BAN.most;
        drop(bytecode, now, AFTER);
        assert_eq!(end(bytecode), Some(now + BAN.time), "{}", algorithm.name());
        // And offends again soon: it begins anew.
        now += BAN.time + SECOND;
        drop(bytecode, now, AFTER);
        assert_eq!(end(bytecode), Some(now + 2 * BAN.time), "{}", algorithm.name());
    }
}

/// What is over the limit, and passes, is no offence.
#[test]
fn what_a_soft_limit_lets_pass_is_not_counted() {
    let settings = ratelimit::dataplane::program::loader::Settings { soft: true, ..super::settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(START);
    bytecode.set("default", Policy { ban: BAN, soft: 50, ..limit(Algorithm::FixedWindow, 20, HOUR) });
    assert_eq!(passed(&bytecode, &frame(ADDRESS), 30 + AFTER - 1), 30);
    assert_eq!((bytecode.count(Reason::WithinSoft), end(&bytecode)), (10, None));
    drop(&mut bytecode, START, 1);
    assert_eq!(end(&bytecode), Some(START + BAN.time));
}
