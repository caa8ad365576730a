//! Events that several CPUs write at once.

use std::{sync::Barrier, thread};

use ratelimit_common::{
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    maps::event::PER_SECOND,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Verdict};

const THREADS: u8 = 4;
const SOURCES: u16 = 5_000;

#[test]
fn every_refusal_writes_an_event_or_counts_as_left_out() {
    let mut bytecode = Bytecode::with(Settings { cells: 0, ..crate::settings() });
    let hourly = Rate { amount: 1, period: 3_600 * SECOND };
    bytecode.set_default(&Limit { packets: Some(hourly), burst: Some(1), ..Limit::default() }.policy().unwrap());
    bytecode.set_time(SECOND);
    let start = Barrier::new(usize::from(THREADS));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bytecode, start) = (&bytecode, &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..SOURCES {
                    let [high, low] = number.to_be_bytes();
                    // The second packet of each source is refused.
                    assert_eq!(bytecode.repeat(&Frame::udp([10, thread, high, low], 9).bytes(), 2), Verdict::Drop);
                }
            });
        }
    });
    let written = bytecode.tables.events_written.open().unwrap().get(&0, 0).unwrap();
    assert_eq!(written.events + written.left_out, u64::from(THREADS) * u64::from(SOURCES));
    // With a stopped clock, at most one second's events are written.
    assert!((1..=PER_SECOND).contains(&written.events), "{written:?}");
}

/// The cached refusal of a deny would last for an hour.
#[test]
fn a_refusal_after_a_removed_deny_writes_an_event() {
    let mut bytecode = Bytecode::with(crate::settings());
    let hourly = Rate { amount: 1, period: 3_600 * SECOND };
    bytecode.set_default(&Limit { packets: Some(hourly), burst: Some(1), ..Limit::default() }.policy().unwrap());
    bytecode.set_time(SECOND);
    let frame = Frame::udp([10, 0, 0, 1], 9).bytes();
    let events = |bytecode: &Bytecode| bytecode.tables.events_written.open().unwrap().get(&0, 0).unwrap().events;
    bytecode.set("10.0.0.1", Policy::DENIED);
    assert_eq!((bytecode.repeat(&frame, 3), events(&bytecode)), (Verdict::Drop, 0));
    bytecode.delete("10.0.0.1");
    assert_eq!((bytecode.send(&frame), events(&bytecode)), (Verdict::Pass, 0));
    assert_eq!((bytecode.repeat(&frame, 3), events(&bytecode)), (Verdict::Drop, 1));
}
