//! A resize: buckets and cells move to maps of another size between two packets.

use std::cell::{Cell, RefCell};

use proptest::test_runner::{Config, TestRunner};
use ratelimit_common::{cells::cell, identity::source::Source, limits::limit::DAY, meters::gcra::units};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, OldMaps, Verdict};

use crate::meters::schedules::arrivals::{Arrival, Model, schedule};

/// Schedules in one run.
const SCHEDULES: u32 = 500;

/// The longest time after a resize. Entries that the program has not fetched move with the command. If they stayed in the
/// old map for longer than the time wraps less the largest debt, they would look like a debt.
const LATEST: u64 = 30 * DAY;

/// The verdicts do not reveal when the resize happens.
#[test]
fn every_verdict_matches_the_model_during_a_resize() {
    for cells in [1, 0] {
        let refused = verdicts_are_the_models(cells).unwrap_or_else(|error| panic!("{error}"));
        println!("{cells} cells, {SCHEDULES} schedules: {refused} packets refused");
        assert!(refused > 1_000, "too few verdicts were close");
    }
}

/// Returns the number of refused packets.
fn verdicts_are_the_models(cells: u32) -> Result<u64, String> {
    let settings = Settings { cells, admissions: 1_000_000, sample: false, ..crate::settings() };
    let before = RefCell::new(Bytecode::with(settings));
    let mut after = Bytecode::with(Settings { moving: true, old_cells: cells, ..settings });
    let old = RefCell::new(OldMaps::of(&mut after));
    let (after, number, refused) = (RefCell::new(after), Cell::new(0u32), Cell::new(0));
    let mut runner = TestRunner::new(Config { cases: SCHEDULES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(schedule(), 0..60usize), |((policy, limit, arrivals, start), moved)| {
        number.set(number.get() + 1);
        let source = Source::v4(number.get().to_be_bytes());
        let (mut before, mut after) = (before.borrow_mut(), after.borrow_mut());
        let idle = |bytecode: &mut Bytecode, at| {
            let idle = cell::Cell { packets: units(at), second: units(at), ..cell::Cell::default() };
            bytecode.tables.front.open_mut().unwrap().set(0, idle, 0).unwrap();
        };
        for bytecode in [&mut *before, &mut *after] {
            // Set first, so that the budget of a later time does not remain.
            bytecode.set_time(start);
            bytecode.forget();
            bytecode.set_default(&policy);
            idle(bytecode, start);
        }
        let (mut model, mut now, mut resized) = (Model::new(&policy, start), start, u64::MAX);
        for (number_of_arrival, Arrival { gap, length }) in arrivals.into_iter().enumerate() {
            now += gap;
            if number_of_arrival == moved {
                old.borrow_mut().take_over(source, &before);
                // The new map does not exist before the resize.
                idle(&mut after, now);
                resized = now;
            }
            if now > resized.saturating_add(LATEST) {
                break;
            }
            let bytecode = if number_of_arrival < moved { &mut *before } else { &mut *after };
            bytecode.set_time(now);
            let frame = Frame::udp(number.get().to_be_bytes(), 9).length(length).bytes();
            let expected = model.decide(now, frame.len() as u32);
            let passes = bytecode.send(&frame) == Verdict::Pass;
            proptest::prop_assert_eq!(
                passes,
                expected.passes(),
                "{:?}: packet {} at {}, moved before {}",
                limit,
                number_of_arrival,
                now - start,
                moved
            );
            refused.set(refused.get() + u64::from(!passes));
        }
        Ok(())
    });
    outcome.map(|()| refused.get()).map_err(|error| error.to_string())
}
