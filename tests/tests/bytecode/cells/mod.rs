//! Cells in front of the buckets: what they decide, and what they must not change.

mod bucket_filters;
mod cached_refusals;
mod collisions;
mod crowd;
mod crowding;
mod displacement;
mod lanes;
mod offenders;
mod reused_addresses;
mod rhythms;
mod services;
mod spread;
mod unknown_and_limits;
pub(crate) mod unknown_sources;

use std::cell::{Cell, RefCell};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{
    cells::{cell, refused_sample::Refused},
    identity::source::Source,
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    maps::cpu::Cpu,
    meters::gcra::units,
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Verdict, stay_on_cpu};

use crate::meters::schedules::arrivals::{Arrival, Model, schedule};

/// Schedules in one run.
const SCHEDULES: u32 = 2_000;

/// Neither an evicted bucket nor a rule change for other sources may change a verdict.
#[test]
fn evictions_and_unrelated_rule_changes_do_not_change_verdicts() {
    let settings = Settings { cells: 1, admissions: 1_000_000, ..crate::settings() };
    let bytecode = RefCell::new(Bytecode::with(settings));
    let (number, evicted, verdicts) = (Cell::new(0u32), Cell::new(0), RefCell::new([0u64; 2]));
    let disturbed = (schedule(), prop::collection::vec((prop::bool::weighted(0.3), prop::bool::weighted(0.1)), 60));
    let mut runner = TestRunner::new(Config { cases: SCHEDULES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&disturbed, |((policy, limit, arrivals, start), disturbances)| {
        number.set(number.get() + 1);
        let source = Source::v4(number.get().to_be_bytes());
        let mut bytecode = bytecode.borrow_mut();
        // Set first, so that the budget of a later time does not remain.
        bytecode.set_time(start);
        bytecode.forget();
        let idle = cell::Cell { packets: units(start), second: units(start), ..cell::Cell::default() };
        bytecode.tables.front.open_mut().unwrap().set(0, idle, 0).unwrap();
        bytecode.set_default(&policy);
        let (mut model, mut now) = (Model::new(&policy, start), start);
        for (Arrival { gap, length }, (is_evicted, is_renewed)) in arrivals.into_iter().zip(disturbances) {
            now += gap;
            bytecode.set_time(now);
            if is_evicted && bytecode.tables.buckets.open_mut().unwrap().remove(&source).is_ok() {
                evicted.set(evicted.get() + 1);
            }
            if is_renewed {
                bytecode.tables.renew().unwrap();
            }
            let frame = Frame::udp(number.get().to_be_bytes(), 9).length(length).bytes();
            let expected = model.decide(now, frame.len() as u32);
            let passes = bytecode.send(&frame) == Verdict::Pass;
            prop_assert_eq!(passes, expected.passes(), "{:?} at {}", limit, now - start);
            verdicts.borrow_mut()[usize::from(passes)] += 1;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let [refused, admitted] = verdicts.into_inner();
    println!("{SCHEDULES} schedules: {admitted} packets admitted, {refused} refused, {} evictions", evicted.get());
    assert!(refused > 4_000 && admitted > 4_000 && evicted.get() > 1_000, "too few verdicts were close");
}

/// Returns the number of packets that cached refusals have refused at this time of the clock, while each is counted.
pub(crate) fn repeated(bytecode: &Bytecode) -> u64 {
    of_cpus(bytecode, |cpu| Refused { skipped: 0, counted: cpu.refused_counted }.packets())
}

/// Returns a limit of one packet per hour.
pub(crate) fn hourly(burst: u64) -> Policy {
    let packets = Some(Rate { amount: 1, period: 3_600 * SECOND });
    Limit { packets, burst: Some(burst), ..Limit::default() }.policy().unwrap()
}

/// Pins this thread to one CPU, since budgets are per CPU.
pub(crate) fn stay_on_one_cpu() {
    stay_on_cpu(0);
}

/// Returns the sum of a counter over all CPUs.
pub(crate) fn of_cpus(bytecode: &Bytecode, figure: impl Fn(&Cpu) -> u64) -> u64 {
    bytecode.tables.cpus.open().unwrap().get(&0, 0).unwrap().iter().map(figure).sum()
}

/// Returns the index of a source's cell.
pub(crate) fn cell_of(bytecode: &Bytecode, source: &Source) -> u32 {
    let seed = bytecode.tables.control().unwrap().seed;
    cell::index(source.hash(&seed), bytecode.tables.front.open().unwrap().len())
}

/// Returns the cell of a source.
pub(crate) fn cell_entry_of(bytecode: &Bytecode, source: &Source) -> cell::Cell {
    bytecode.tables.front.open().unwrap().get(&cell_of(bytecode, source), 0).unwrap()
}

/// Returns addresses of 10.0.0.0/8 that share the last cell.
pub(crate) fn sharing(bytecode: &Bytecode, count: usize) -> Vec<[u8; 4]> {
    let (seed, cells) = (bytecode.tables.control().unwrap().seed, bytecode.tables.front.open().unwrap().len());
    let is_in = |address: &[u8; 4]| cell::index(Source::v4(*address).hash(&seed), cells) == cells - 1;
    let found: Vec<_> = (0x0a00_0001..0x0b00_0000_u32).map(u32::to_be_bytes).filter(is_in).take(count).collect();
    assert_eq!(found.len(), count);
    found
}

/// States are even numbers that wrap. The largest one has no special meaning.
#[test]
fn a_source_whose_state_has_the_largest_value_is_limited_as_usual() {
    let mut bytecode = Bytecode::with(Settings { cells: 1, ..crate::settings() });
    // The cost of one packet is the distance from a state to the largest even number.
    let policy = (1..).map(|amount| ratelimit_tests::per_second(amount, 2));
    let policy = policy.into_iter().find(|policy| policy.packets.cost_of(1) % units(1) == units(1) - 2).unwrap();
    let (largest, cost) = (u64::MAX - 1, policy.packets.cost_of(1));
    let start = (largest - cost) / units(1);
    bytecode.set_time(start);
    let idle = cell::Cell { packets: units(start), second: units(start), ..cell::Cell::default() };
    bytecode.tables.front.open_mut().unwrap().set(0, idle, 0).unwrap();
    bytecode.set_default(&policy);
    let source = [192, 0, 2, 1];
    // The cell takes the first packet, the source's bucket the second one.
    for after in [0, 0, cost, 2 * cost] {
        bytecode.set_time(start + after / units(1) + 1);
        if after == 0 {
            bytecode.set_time(start);
        }
        assert_eq!(bytecode.reason(&Frame::udp(source, 9).length(42).bytes()), Reason::WithinLimit);
        if bytecode.bucket(Source::v4(source)).is_some_and(|bucket| bucket.packets == largest) {
            return;
        }
    }
    panic!("the state was never the largest");
}
