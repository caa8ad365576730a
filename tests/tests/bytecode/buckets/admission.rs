//! Admission: which sources get a bucket.

use ratelimit_common::{
    identity::source::Source,
    limits::{limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, readings::tracked};
use ratelimit_tests::{Bytecode, Frame, Order, Sources, Walker, per_second};

use crate::cells::{of_cpus, stay_on_one_cpu};

const RATE: u64 = 10;
const BURST: u64 = 10;
/// Packets that the cell admits. Above this, it asks the source's bucket.
const HALF: u32 = 5;

fn unknown_source(number: u8) -> [u8; 4] {
    [198, 51, 100, number]
}

fn frame(address: [u8; 4]) -> Vec<u8> {
    Frame::udp(address, 9).bytes()
}

/// Asserts that a source gets exactly its burst, as it does with a bucket.
#[track_caller]
fn gets_exactly_its_burst(bytecode: &Bytecode, frame: &[u8]) {
    for _ in 0..BURST {
        assert_eq!(bytecode.reason(frame), Reason::WithinLimit);
    }
    assert_eq!(bytecode.reason(frame), Reason::OverPackets);
}

/// Loads a program that creates one bucket per second, with a cell per source. The first source has spent its burst.
fn with_one_a_second() -> (Bytecode, Vec<u8>) {
    stay_on_one_cpu();
    let mut bytecode = Bytecode::with(Settings { admissions: 1, cells: 1 << 18, sample: false, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(RATE, BURST));
    let first = frame([192, 0, 2, 1]);
    gets_exactly_its_burst(&bytecode, &first);
    (bytecode, first)
}

#[test]
fn beyond_the_admission_budget_a_source_alone_in_its_cell_gets_its_burst_and_no_more() {
    let (mut bytecode, first) = with_one_a_second();
    for number in 0..50 {
        let frame = frame(unknown_source(number));
        for _ in 0..BURST {
            assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
        }
        for _ in 0..3 {
            assert_eq!(bytecode.reason(&frame), Reason::NotAdmitted);
        }
        assert_eq!(bytecode.bucket(Source::v4(unknown_source(number))), None);
    }
    assert_eq!((of_cpus(&bytecode, |cpu| cpu.admitted), of_cpus(&bytecode, |cpu| cpu.failed)), (1, 0));
    // A source with a bucket keeps its rate while other sources compete. In each second one of these gets a bucket.
    let (mut kept, mut given) = (0, 0);
    for step in 1..=100 {
        bytecode.set_time(SECOND + step * SECOND / RATE);
        kept += u64::from(bytecode.reason(&first).passes());
        for number in 0..50 {
            bytecode.repeat(&frame(unknown_source(number)), 3);
        }
        if step.is_multiple_of(RATE) {
            given += 1;
            assert_eq!(of_cpus(&bytecode, |cpu| cpu.admitted), 1 + given);
        }
    }
    assert_eq!((kept, given), (100, 10));
    // As long as its cell has room for the whole burst, a source needs no bucket.
    let newcomer = frame(unknown_source(200));
    for _ in 0..BURST {
        assert_eq!(bytecode.reason(&newcomer), Reason::WithinLimit);
    }
    assert_eq!(bytecode.reason(&newcomer), Reason::NotAdmitted);
    // A second later it is the first to ask for a bucket.
    bytecode.set_time(SECOND + 100 * SECOND / RATE + SECOND);
    bytecode.repeat(&newcomer, u32::try_from(BURST).unwrap());
    assert!(bytecode.bucket(Source::v4(unknown_source(200))).is_some());
    assert_eq!(bytecode.reason(&newcomer), Reason::OverPackets);
}

/// Sources without a limit get a bucket only for their counters. They must not use up the budget of limited sources.
#[test]
fn sources_without_a_limit_leave_the_admission_budget_to_limited_sources() {
    stay_on_one_cpu();
    let admissions = 320;
    let mut bytecode = Bytecode::with(Settings { admissions, cells: 1 << 18, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("192.0.2.0/24", per_second(RATE, BURST));
    let mut walker = Walker::new(9, 0);
    walker.lead_to(bytecode.program());
    walker.run(Sources::Endless, Order::InTurn, 10_000);
    assert_eq!(of_cpus(&bytecode, |cpu| cpu.admitted), admissions / 16);
    gets_exactly_its_burst(&bytecode, &frame([192, 0, 2, 1]));
}

/// A denied source needs no bucket. The program creates at most as many as the samples' share of the budget.
#[test]
fn a_denied_flood_leaves_the_admission_budget_to_limited_sources() {
    stay_on_one_cpu();
    let mut bytecode = Bytecode::with(Settings { admissions: 320, cells: 1 << 18, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(RATE, BURST));
    bytecode.set("203.0.0.0/16", Policy::DENIED);
    for number in 0..400u16 {
        let [high, low] = number.to_be_bytes();
        assert_eq!(bytecode.reason(&frame([203, 0, high, low])), Reason::Denied);
    }
    gets_exactly_its_burst(&bytecode, &frame([192, 0, 2, 1]));
}

/// One limit uses the precise clock and the other one the coarse clock, which lags behind. A budget that mixed both
/// clocks would refill at every turn.
#[test]
fn limits_on_the_precise_and_the_coarse_clock_share_one_admission_budget() {
    stay_on_one_cpu();
    let (admissions, tick) = (1_000, 4_000_000);
    let settings = Settings { admissions, sample: false, injected_tick: tick, ..crate::settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(1_000, 1_000));
    bytecode.set("203.0.0.0/14", per_second(RATE, 1));
    // The difference between the clocks is the largest possible one.
    bytecode.set_time(5 * SECOND + tick - 1_000);
    for round in 0..5 {
        for number in 0..2_000u16 {
            let [high, low] = number.to_be_bytes();
            bytecode.send(&frame([203, round, high, low]));
        }
        // This exceeds the cell's share, so the source asks for a bucket.
        bytecode.repeat(&frame([10, 0, 0, round]), 600);
    }
    // Samples of limited sources use their own share of the budget.
    let made = of_cpus(&bytecode, |cpu| cpu.admitted);
    assert!((admissions..=admissions + admissions / 16 + 1).contains(&made), "{made}");
}

/// Sources that send half a burst and one packet each spend the budget. Others keep what they may send: hardly any shares its
/// cell with a source of the flood.
#[test]
fn a_flood_of_half_a_burst_and_a_packet_takes_few_packets_of_others() {
    stay_on_one_cpu();
    let mut bytecode = Bytecode::with(Settings { admissions: 10, cells: 1 << 17, sample: false, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(RATE, BURST));
    let honest: Vec<_> = (0..50).map(|number| frame(unknown_source(number))).collect();
    let mut refused = 0;
    for second in 1..=20u8 {
        bytecode.set_time(u64::from(second) * SECOND);
        for forged in 0..60u16 {
            let [high, low] = forged.to_be_bytes();
            bytecode.repeat(&frame([203, second, high, low]), HALF + 1);
        }
        for frame in &honest {
            refused += (0..BURST).filter(|_| !bytecode.reason(frame).passes()).count();
        }
    }
    // In all, 1,200 forged sources meet 50 others in 131,072 cells: about half a time. Each takes at most six packets.
    assert!(refused <= 4 * (HALF as usize + 1), "{refused} of {} packets", 20 * 50 * BURST);
    // The budget was spent in each second.
    let made = of_cpus(&bytecode, |cpu| cpu.admitted);
    assert!((190..=210).contains(&made), "{made}");
}

/// With a budget of zero, the program creates no bucket and loses no rule.
#[test]
fn with_admission_budget_zero_cells_and_rules_still_apply() {
    let mut bytecode = Bytecode::with(Settings { admissions: 0, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(RATE, BURST));
    bytecode.set("203.0.113.0/24", Policy::DENIED);
    let (denied, other) = (frame([203, 0, 113, 1]), frame(unknown_source(1)));
    for _ in 0..10 {
        assert_eq!(bytecode.reason(&denied), Reason::Denied);
    }
    for _ in 0..BURST {
        assert_eq!(bytecode.reason(&other), Reason::WithinLimit);
    }
    assert_eq!(bytecode.reason(&other), Reason::NotAdmitted);
    assert!(tracked::all(&bytecode.tables).unwrap().is_empty());
}

/// The kernel gives the only bucket to the source that asked last. The cells keep the debt of each source.
#[test]
fn with_one_bucket_no_source_exceeds_its_burst() {
    stay_on_one_cpu();
    let mut bytecode = Bytecode::with(Settings { buckets: 1, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", per_second(RATE, BURST));
    let frames: Vec<_> = (0..20).map(|number| frame(unknown_source(number))).collect();
    for round in 0..2 * BURST {
        for frame in &frames {
            let expected = if round < BURST { Reason::WithinLimit } else { Reason::OverPackets };
            assert_eq!(bytecode.reason(frame), expected, "round {round}");
        }
    }
    // Each packet above the cell's share creates a bucket, except those that a cached refusal drops.
    let (made, failed) = (of_cpus(&bytecode, |cpu| cpu.admitted), of_cpus(&bytecode, |cpu| cpu.failed));
    assert_eq!((made, failed), (20 * (BURST - u64::from(HALF) + 1), 0));
    assert_eq!(bytecode.count(Reason::TableFull), 0);
    assert_eq!(tracked::all(&bytecode.tables).unwrap().len(), 1);
}
