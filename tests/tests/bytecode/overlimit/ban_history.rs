//! Ban history: bans after a number of drops, and longer bans for repeated offences.

use ratelimit_common::{
    identity::source::Source,
    limits::{
        algorithm::Algorithm,
        limit::{DAY, SECOND},
        policy::{Ban, Policy},
    },
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::Bytecode;

use crate::{
    front::{Front, with_and_without_cells},
    meters::{self, ADDRESS, HOUR, MINUTE, frame, limit, passed, source},
};

const AFTER: u32 = 5;
const BAN: Ban = Ban { time: 10 * MINUTE, most: 40 * MINUTE, after: AFTER, reserved: 0 };
const START: u64 = 100 * DAY;

fn settings(front: Front) -> Settings {
    Settings { bans: true, ..meters::settings(front) }
}

/// Loads a limit of two packets per day and sends both, so that every further packet is over the limit.
fn offenders(front: Front, algorithm: Algorithm) -> Bytecode {
    let mut bytecode = Bytecode::with(settings(front));
    bytecode.set("default", Policy { ban: BAN, ..limit(algorithm, 2, DAY) });
    bytecode.set_time(START);
    assert_eq!(passed(&bytecode, &frame(ADDRESS), 2), 2);
    bytecode
}

/// Has the limit drop packets at this time.
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

/// Returns when the ban of the source ends, if it has one.
fn end(bytecode: &Bytecode) -> Option<u64> {
    let bans = bytecode.tables.bans().unwrap().all();
    bans.iter().find(|(source, _)| *source == Source::v4(ADDRESS)).map(|(_, ban)| ban.expires)
}

fn the_fifth_drop_within_a_minute_bans_and_the_fourth_does_not(front: Front) {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(front, algorithm);
        drop(bytecode, START + SECOND, AFTER - 1);
        assert_eq!(end(bytecode), None, "{}", algorithm.name());
        drop(bytecode, START + 2 * SECOND, 1);
        assert_eq!(end(bytecode), Some(START + 2 * SECOND + BAN.time), "{}", algorithm.name());
        assert!(is_banned(bytecode, START + 2 * SECOND), "{}", algorithm.name());
        // Each source has its own drop count.
        assert_eq!(passed(bytecode, &frame(source(7)), 2 + AFTER - 1), 2, "{}", algorithm.name());
        assert_eq!(bytecode.tables.bans().unwrap().all().len(), 1, "{}", algorithm.name());
    }
}

fn four_drops_per_minute_never_ban(front: Front) {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(front, algorithm);
        for minute in 0..30 {
            // A minute starts with its first drop.
            drop(bytecode, START + minute * (MINUTE + SECOND), AFTER - 1);
        }
        assert_eq!(end(bytecode), None, "{}", algorithm.name());
    }
}

fn the_minute_of_ban_after_starts_with_its_first_drop(front: Front) {
    for (wait, is_enough) in [(MINUTE - SECOND, true), (MINUTE + SECOND, false)] {
        let bytecode = &mut offenders(front, Algorithm::TokenBucket);
        drop(bytecode, START, 1);
        drop(bytecode, START + wait / 2, AFTER - 2);
        drop(bytecode, START + wait, 1);
        assert_eq!(end(bytecode).is_some(), is_enough, "{wait} ns");
    }
}

/// No command runs. The only packets are those of the banned source.
fn a_ban_expires_on_time_and_packets_do_not_extend_it(front: Front) {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(front, algorithm);
        drop(bytecode, START, AFTER);
        let ends = START + BAN.time;
        for second in 0..BAN.time / SECOND {
            assert!(is_banned(bytecode, START + second * SECOND), "{} at {second} s", algorithm.name());
        }
        assert!(is_banned(bytecode, ends - 1), "{}", algorithm.name());
        assert_eq!(end(bytecode), Some(ends), "{}", algorithm.name());
        // The source is over its limit again. Drops during the ban do not count.
        drop(bytecode, ends, AFTER - 1);
        assert!(!is_banned(bytecode, ends + MINUTE + SECOND), "{}", algorithm.name());
    }
}

fn each_further_ban_doubles_up_to_the_cap(front: Front) {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(front, algorithm);
        let mut now = START;
        for (number, minutes) in [10, 20, 40, 40, 40].into_iter().enumerate() {
            drop(bytecode, now, AFTER);
            let ends = now + minutes * MINUTE;
            assert_eq!(end(bytecode), Some(ends), "{}, ban {number}", algorithm.name());
            assert!(is_banned(bytecode, ends - 1), "{}, ban {number}", algorithm.name());
            // Slightly before the history is cleared.
            now = ends + BAN.most - SECOND;
        }
    }
}

fn the_ban_history_is_cleared_after_the_longest_ban_time(front: Front) {
    for algorithm in Algorithm::ALL {
        let bytecode = &mut offenders(front, algorithm);
        let mut now = START;
        for minutes in [10, 20, 40] {
            drop(bytecode, now, AFTER);
            assert_eq!(end(bytecode), Some(now + minutes * MINUTE), "{}", algorithm.name());
            now += minutes * MINUTE + SECOND;
        }
        now += BAN.most;
        drop(bytecode, now, AFTER);
        assert_eq!(end(bytecode), Some(now + BAN.time), "{}", algorithm.name());
        // A later offence starts a new history.
        now += BAN.time + SECOND;
        drop(bytecode, now, AFTER);
        assert_eq!(end(bytecode), Some(now + 2 * BAN.time), "{}", algorithm.name());
    }
}

/// A packet over the limit that passes does not count as an offence.
fn packets_within_the_soft_allowance_do_not_count_toward_a_ban(front: Front) {
    let mut bytecode = Bytecode::with(Settings { soft: true, lanes: true, ..settings(front) });
    bytecode.set_time(START);
    bytecode.set("default", Policy { ban: BAN, soft: 50, ..limit(Algorithm::FixedWindow, 20, HOUR) });
    assert_eq!(passed(&bytecode, &frame(ADDRESS), 30 + AFTER - 1), 30);
    assert_eq!((bytecode.count(Reason::WithinSoft), end(&bytecode)), (10, None));
    drop(&mut bytecode, START, 1);
    assert_eq!(end(&bytecode), Some(START + BAN.time));
}

with_and_without_cells!(
    the_fifth_drop_within_a_minute_bans_and_the_fourth_does_not,
    four_drops_per_minute_never_ban,
    the_minute_of_ban_after_starts_with_its_first_drop,
    a_ban_expires_on_time_and_packets_do_not_extend_it,
    each_further_ban_doubles_up_to_the_cap,
    the_ban_history_is_cleared_after_the_longest_ban_time,
    packets_within_the_soft_allowance_do_not_count_toward_a_ban,
);
