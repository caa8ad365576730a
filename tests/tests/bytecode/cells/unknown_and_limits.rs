//! The limit of unknown sources together with another limit that refuses their packets.

use ratelimit_common::{
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::{Policy, SHADOW},
    },
    reason::Reason,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::spec::{ParentLimit, RuleSpec, Scope},
};
use ratelimit_tests::{Bytecode, Verdict, per_second};

use super::unknown_sources::{STEP, frame, is_known};

const RATE: u64 = 10_000;
/// Packets that the parent of 10.0.0.0/8 admits at once.
const OF_PARENT: u8 = 10;

/// Returns a program whose parent of 10.0.0.0/8 has no room for an hour.
fn with_a_spent_parent() -> Bytecode {
    let settings = Settings { unknown: RATE, cells: 1 << 12, parents: true, lanes: true, ..crate::settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(5 * STEP);
    let rate = Rate { amount: 1, period: 3_600 * SECOND };
    let limit = Limit { packets: Some(rate), burst: Some(OF_PARENT.into()), ..Limit::default() };
    let parents = vec![ParentLimit { scope: Scope::All, policy: limit.policy().unwrap() }];
    bytecode.set("10.0.0.0/8", RuleSpec { policy: Policy::UNLIMITED, parents });
    bytecode.set("default", per_second(1_000, 1_000));
    for host in 0..OF_PARENT {
        assert_eq!(bytecode.reason(&frame([10, 0, 0, host])), Reason::WithinLimit);
    }
    bytecode
}

#[test]
fn a_packet_that_another_limit_refuses_takes_nothing_from_the_rate() {
    let bytecode = with_a_spent_parent();
    for number in 0..RATE as u32 {
        let [_, _, high, low] = number.to_be_bytes();
        assert_eq!(bytecode.reason(&frame([10, 1, high, low])), Reason::OverParent, "packet {number}");
    }
    // Half the burst of the rate is left, less what has passed.
    for number in 0..RATE as u32 / 10 - u32::from(OF_PARENT) {
        let [_, _, high, low] = number.to_be_bytes();
        assert_eq!(bytecode.reason(&frame([11, 1, high, low])), Reason::WithinLimit, "packet {number}");
    }
}

#[test]
fn a_packet_that_passes_a_limit_in_shadow_takes_from_the_rate() {
    let settings = Settings { unknown: RATE, cells: 1 << 12, actions: true, ..crate::settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(5 * STEP);
    bytecode.set("default", Policy { over_limit: SHADOW, ..per_second(1, 1) });
    let packets = RATE as u32;
    assert_eq!(bytecode.repeat(&frame([10, 0, 0, 1]), packets), Verdict::Drop);
    let over = bytecode.count(Reason::OverUnknown);
    assert!(over >= u64::from(packets - packets / 5), "only {over} of {packets} packets exceeded the rate");
}

#[test]
fn packets_that_another_limit_refuses_do_not_make_a_source_known() {
    let bytecode = with_a_spent_parent();
    let mut clock = bytecode.clock();
    for _ in 0..5 {
        assert_eq!(bytecode.reason(&frame([10, 1, 0, 1])), Reason::OverParent);
        assert_eq!(bytecode.reason(&frame([11, 1, 0, 1])), Reason::WithinLimit);
        clock.advance(STEP);
    }
    assert!(!is_known(&bytecode, [10, 1, 0, 1]));
    assert!(is_known(&bytecode, [11, 1, 0, 1]));
}
