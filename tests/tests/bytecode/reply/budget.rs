//! The reply budget.

use std::thread;

use ratelimit_common::limits::limit::SECOND;
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Verdict};

use super::{SOURCE_V4, SOURCE_V6, load};
use crate::cells::of_cpus;

fn limited(replies: u64) -> Bytecode {
    load(Settings { replies, ..crate::settings() })
}

/// Returns how many replies were sent, and how many the budget refused.
fn counted(bytecode: &Bytecode) -> (u64, u64) {
    (of_cpus(bytecode, |cpu| cpu.replies_sent), of_cpus(bytecode, |cpu| cpu.replies_unsent))
}

/// The burst is a tenth of a second's budget, and at least one reply.
#[test]
fn a_flood_gets_the_reply_burst_and_then_the_reply_rate() {
    for (replies, burst) in [(100, 10), (1_000, 100), (4, 1), (1, 1)] {
        let bytecode = limited(replies);
        let mut clock = bytecode.clock();
        let frames = [Frame::syn(SOURCE_V4, 443).bytes(), Frame::udp(SOURCE_V6, 53).bytes()];
        for frame in &frames {
            assert_eq!(bytecode.send(frame), Verdict::Pass);
        }
        let (seconds, steps, each) = (3, 100, 30);
        let (mut answered, mut dropped) = (0, 0);
        for step in 0..=seconds * steps {
            for packet in 0..each {
                let (verdict, out) = bytecode.exchange(&frames[packet % frames.len()]);
                match verdict {
                    Verdict::Reply => answered += 1,
                    // A packet without a reply stays unchanged.
                    Verdict::Drop if out == frames[packet % frames.len()] => dropped += 1,
                    other => panic!("{other:?}, {out:?}"),
                }
            }
            if step < seconds * steps {
                clock.advance(SECOND / steps);
            }
        }
        assert_eq!(answered, burst + replies * seconds, "{replies}/s");
        assert_eq!(counted(&bytecode), (answered, dropped));
    }
}

#[test]
fn several_cpus_share_one_reply_budget() {
    let bytecode = &limited(1_000);
    let frame = &Frame::syn(SOURCE_V4, 443).bytes();
    bytecode.send(frame);
    let packets = 20_000;
    let answered = thread::scope(|scope| {
        let sender = || (0..packets).filter(|_| bytecode.exchange(frame).0 == Verdict::Reply).count() as u64;
        let threads = [0; 4].map(|_| scope.spawn(sender));
        threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>()
    });
    assert_eq!(answered, 100);
    assert_eq!(counted(bytecode), (answered, 4 * packets - answered));
}

#[test]
fn packets_that_get_no_reply_do_not_use_the_reply_budget() {
    let bytecode = limited(100);
    let segment = Frame::ack(SOURCE_V4, 443).bytes();
    bytecode.send(&segment);
    for _ in 0..100 {
        assert_eq!(bytecode.exchange(&segment), (Verdict::Drop, segment.clone()));
    }
    assert_eq!(counted(&bytecode), (0, 0));
    let frame = Frame::syn(SOURCE_V4, 443).bytes();
    let answered = (0..20).filter(|_| bytecode.exchange(&frame).0 == Verdict::Reply).count();
    assert_eq!(answered, 10);
}

#[test]
fn with_reply_budget_zero_no_reply_is_sent() {
    let bytecode = limited(0);
    let frame = Frame::syn(SOURCE_V4, 443).bytes();
    bytecode.send(&frame);
    for _ in 0..100 {
        assert_eq!(bytecode.exchange(&frame), (Verdict::Drop, frame.clone()));
    }
    assert_eq!(counted(&bytecode), (0, 100));
}

/// The debt of a smaller budget is at most the burst of the larger one.
#[test]
fn a_larger_reply_budget_applies_at_once() {
    let mut bytecode = limited(1);
    let frame = Frame::syn(SOURCE_V4, 443).bytes();
    bytecode.send(&frame);
    let answered = |bytecode: &Bytecode| (0..50).filter(|_| bytecode.exchange(&frame).0 == Verdict::Reply).count();
    assert_eq!(answered(&bytecode), 1);
    let mut control = bytecode.tables.control().unwrap();
    control.replies = limited(100).tables.control().unwrap().replies;
    bytecode.tables.set_control(&control).unwrap();
    assert_eq!(answered(&bytecode), 0);
    let mut clock = bytecode.clock();
    clock.advance(SECOND / 10);
    assert_eq!(answered(&bytecode), 10);
}
