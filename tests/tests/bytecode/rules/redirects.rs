//! Service rules that change under a flood whose packets are charged to a wider service.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ratelimit_common::{
    limits::{limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, tables::open::Tables};
use ratelimit_tests::{Bytecode, Frame, Runner, Verdict, delete_rule, per_second, set_rule};

use crate::front::{Front, with_and_without_cells};

const SOURCE: [u8; 4] = [10, 1, 2, 3];

fn load(front: Front) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { services: true, ..front.settings() });
    bytecode.set_time(SECOND);
    // Rules of other sources give the services their classes.
    bytecode.set("192.0.2.1 tcp/443", Policy::DENIED);
    bytecode.set("192.0.2.1 tcp", Policy::DENIED);
    bytecode.set("192.0.2.1 tcp-syn", Policy::DENIED);
    bytecode
}

/// Runs `change` many times during a flood of TCP SYN packets to port 443.
fn under_flood(bytecode: &mut Bytecode, mut change: impl FnMut(Runner<'_>, &mut Tables)) {
    let (runner, tables) = bytecode.apart();
    let frame = Frame::syn(SOURCE, 443).bytes();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = runner.repeat(&frame, 100_000);
            }
        });
        for _ in 0..300 {
            change(runner, tables);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// The cached result of a redirected packet must not apply to other packets of that service.
fn a_deny_applies_to_the_next_packet_of_every_service(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default tcp-syn", per_second(100_000_000, 1_000_000));
    let other = Frame::syn(SOURCE, 80).bytes();
    let mut passed = 0;
    under_flood(&mut bytecode, |runner, tables| {
        set_rule(tables, "10.1.2.3 tcp", Policy::DENIED);
        passed += u32::from(runner.repeat(&other, 1) == Verdict::Pass);
        delete_rule(tables, "10.1.2.3 tcp");
    });
    assert_eq!(passed, 0);
}

fn every_packet_finds_a_rule_while_rules_change(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default", per_second(1, 1));
    under_flood(&mut bytecode, |_, tables| {
        set_rule(tables, "10.1.2.3 tcp-syn", per_second(1, 1));
        delete_rule(tables, "10.1.2.3 tcp-syn");
    });
    assert_eq!(bytecode.count(Reason::NoState), 0);
}

with_and_without_cells!(
    a_deny_applies_to_the_next_packet_of_every_service,
    every_packet_finds_a_rule_while_rules_change,
);
