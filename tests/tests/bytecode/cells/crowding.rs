//! The formula of docs/floods.md: a flood crowds the levels of its limit above N × r packets per second. Then about a
//! share of N × r / F of all packets passes. The bounds are in percent: half of that share to five quarters of it.

use ratelimit_common::{limits::limit::SECOND, maps::levels::LANE_LEVELS};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Verdict, Walker, per_second};

const CELLS: u32 = 1 << 12;
const RATE: u64 = 4;
const MILLISECOND: u64 = SECOND / 1_000;
const NEWCOMERS: u32 = 500;

/// Seconds of a flood: longer than a cell's share of the burst lasts.
const DURATION: u64 = 4;

/// Sends a flood of so many new sources per second. Then newcomers send a packet each. Returns how many of these pass.
fn newcomers_beside(bytecode: &mut Bytecode, per_second: u64, port: u16) -> u32 {
    let (mut now, mut sent) = (SECOND, 0);
    while now < (1 + DURATION) * SECOND {
        bytecode.set_time(now);
        let due = (now - SECOND) * per_second / SECOND;
        for number in sent..due {
            bytecode.send(&Frame::udp(Walker::source(number as u32), port).bytes());
        }
        (now, sent) = (now + MILLISECOND, due);
    }
    let packet = |host: u32| Frame::udp([192, 0, (host >> 8) as u8, host as u8], port).bytes();
    (0..NEWCOMERS).map(|host| u32::from(bytecode.send(&packet(host)) == Verdict::Pass)).sum()
}

fn load() -> Bytecode {
    // No budget, so that a newcomer depends on its levels alone.
    let settings = Settings { services: true, lanes: true, cells: CELLS, admissions: 0, ..Settings::default() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    bytecode
}

#[test]
fn the_default_is_crowded_above_its_rate_times_the_number_of_cells() {
    for (share, [least, most]) in [(50, [95, 100]), (200, [25, 63])] {
        let mut bytecode = load();
        bytecode.set("default", per_second(RATE, 2 * RATE));
        let passed = newcomers_beside(&mut bytecode, u64::from(CELLS) * RATE * share / 100, 9);
        assert!((least..=most).contains(&(passed / 5)), "{share} % of the formula: {passed} of {NEWCOMERS} pass");
    }
}

#[test]
fn another_limit_is_crowded_above_its_rate_times_the_levels_of_its_lane() {
    let policy = per_second(1, 8);
    for (share, [least, most]) in [(50, [95, 100]), (300, [16, 42])] {
        let mut bytecode = load();
        bytecode.set("default", per_second(1_000, 1_000));
        bytecode.set("default udp/53", policy);
        let passed = newcomers_beside(&mut bytecode, u64::from(LANE_LEVELS) * share / 100, 53);
        assert!((least..=most).contains(&(passed / 5)), "{share} % of the formula: {passed} of {NEWCOMERS} pass");
        assert_eq!(newcomers_beside(&mut bytecode, 0, 9), NEWCOMERS, "the default is not affected");
    }
}
