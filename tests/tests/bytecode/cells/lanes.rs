//! Limits other than the default, whose levels and budgets are their own.

use ratelimit_common::{
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    maps::levels::LANE_LEVELS,
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Verdict, Walker, per_second};

const CELLS: u32 = 1 << 12;
const NEWCOMERS: u32 = 200;
/// Packets that fill the levels of a cell or a lane several times.
const FLOOD: u32 = 8 * LANE_LEVELS;

fn load() -> Bytecode {
    let mut bytecode =
        Bytecode::with(Settings { services: true, parents: true, lanes: true, cells: CELLS, ..Settings::default() });
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1_000, 1_000));
    bytecode
}

fn per(amount: u64, period: u64) -> Policy {
    Limit { packets: Some(Rate { amount, period }), ..Limit::default() }.policy().unwrap()
}

/// Sends enough packets of forged sources to fill every cell many times over. `address` makes one from a number.
fn flood(bytecode: &Bytecode, frame: impl Fn(u32) -> Vec<u8>) {
    for number in 0..FLOOD {
        bytecode.send(&frame(number));
    }
}

/// Sends five packets of each newcomer, beside further packets of the flood, and returns how many pass.
fn newcomers(bytecode: &Bytecode, frame: impl Fn(u32) -> Vec<u8>, flood: impl Fn(u32) -> Vec<u8>) -> u32 {
    let mut passed = 0;
    for number in 0..NEWCOMERS * 5 {
        passed += u32::from(bytecode.send(&frame(number / 5)) == Verdict::Pass);
        bytecode.send(&flood((1 << 24) + number));
    }
    passed
}

fn newcomer(number: u32) -> Vec<u8> {
    Frame::udp([192, 0, (number >> 8) as u8, number as u8], 9).bytes()
}

fn ping(number: u32) -> Vec<u8> {
    Frame::echo(Walker::source(number).octets()).bytes()
}

#[test]
fn a_flood_under_a_slow_limit_of_a_service_takes_nothing_from_newcomers() {
    for (amount, period) in [(10, 60 * SECOND), (1, 3_600 * SECOND), (5, SECOND), (100, SECOND)] {
        let mut bytecode = load();
        bytecode.set("default icmp", per(amount, period));
        flood(&bytecode, ping);
        assert_eq!(newcomers(&bytecode, newcomer, ping), 5 * NEWCOMERS, "{amount} per {period} ns");
    }
}

#[test]
fn a_flood_under_a_slow_limit_of_a_prefix_takes_nothing_from_newcomers() {
    let mut bytecode = load();
    bytecode.set("10.0.0.0/8", per(10, 60 * SECOND));
    let forged = |number: u32| Frame::udp((0x0a00_0000 | number & 0xff_ffff).to_be_bytes(), 9).bytes();
    flood(&bytecode, forged);
    assert_eq!(newcomers(&bytecode, newcomer, forged), 5 * NEWCOMERS);
    // Neither does what the limit has left behind.
    bytecode.delete("10.0.0.0/8");
    assert_eq!(newcomers(&bytecode, |number| newcomer(NEWCOMERS + number), forged), 5 * NEWCOMERS);
}

/// The budget for new buckets belongs to a limit too. Each newcomer here needs a bucket for half of its packets.
#[test]
fn a_flood_under_a_slow_limit_spends_no_budget_of_the_default() {
    let mut bytecode = load();
    bytecode.set("default icmp", per(10, 60 * SECOND));
    flood(&bytecode, ping);
    let refused = bytecode.count(Reason::NotAdmitted);
    assert!(refused > 0, "the flood did not spend its budget");
    for host in 0..100 {
        bytecode.repeat(&Frame::udp([198, 51, 100, host], 9).bytes(), 1_000);
    }
    assert_eq!(bytecode.count(Reason::NotAdmitted), refused);
}

/// Two services with equal limits are limits of their own.
#[test]
fn a_flood_under_the_limit_of_one_service_takes_nothing_from_another() {
    let mut bytecode = load();
    bytecode.set("default icmp", per(10, 60 * SECOND));
    bytecode.set("default udp/53", per(10, 60 * SECOND));
    flood(&bytecode, ping);
    let query = |number: u32| Frame::udp([192, 0, (number >> 8) as u8, number as u8], 53).bytes();
    assert_eq!(newcomers(&bytecode, query, ping), 5 * NEWCOMERS);
}

/// There are fewer lanes than limits here, so most limits share theirs.
#[test]
fn a_flood_under_one_of_many_limits_takes_nothing_from_much_faster_ones() {
    let mut bytecode = load();
    for number in 0..40_u8 {
        bytecode.set(&format!("10.{number}.0.0/16"), per(1_000 + u64::from(number), SECOND));
    }
    bytecode.set("10.200.0.0/16", per(10, 60 * SECOND));
    bytecode.set("10.201.0.0/16", per(5_000, SECOND));
    let of = |second: u8| move |number: u32| Frame::udp([10, second, (number >> 8) as u8, number as u8], 9).bytes();
    flood(&bytecode, of(200));
    for fast in [0, 39, 201] {
        assert_eq!(newcomers(&bytecode, of(fast), of(200)), 5 * NEWCOMERS, "10.{fast}.0.0/16");
    }
}

/// A changed limit begins with the debt of the old one.
#[test]
fn a_changed_limit_forgets_no_debt() {
    let mut bytecode = load();
    bytecode.set("default icmp", per(10, 60 * SECOND));
    let frame = Frame::echo([192, 0, 2, 1]).bytes();
    let passed = |bytecode: &Bytecode| (0..20).filter(|_| bytecode.send(&frame) == Verdict::Pass).count();
    assert_eq!(passed(&bytecode), 10);
    bytecode.set("default icmp", per(11, 60 * SECOND));
    assert_eq!(passed(&bytecode), 0);
    bytecode.set("default icmp", per(12, 60 * SECOND));
    assert_eq!(passed(&bytecode), 0);
}
