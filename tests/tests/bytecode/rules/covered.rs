//! Rules that expire over rules that stay.

use std::time::Duration;

use ratelimit_common::{
    limits::{
        limit::SECOND,
        policy::{Ban, Policy},
    },
    reason::Reason,
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::{batch, list, target::Target},
    sys::host,
};
use ratelimit_tests::{Bytecode, Frame, Verdict, per_second};

use crate::front::{Front, with_and_without_cells};

const ADDRESS: [u8; 4] = [192, 0, 2, 7];

fn frame() -> Vec<u8> {
    Frame::udp(ADDRESS, 9).bytes()
}

fn set_for(bytecode: &mut Bytecode, target: &str, policy: Policy, seconds: u64) {
    let target: Target = target.parse().unwrap();
    batch::set(&mut bytecode.tables, target, &policy.into(), Some(Duration::from_secs(seconds)), COMMAND).unwrap();
}

/// Neither the source nor the prefix loses its rule, and no command runs at the end.
fn a_rule_that_ends_gives_back_the_rule_that_it_covers(front: Front) {
    for target in ["192.0.2.7", "192.0.2.0/24"] {
        let mut bytecode = Bytecode::with(front.settings());
        let begin = host::now();
        bytecode.set_time(begin);
        bytecode.set("192.0.0.0/16", Policy::DENIED);
        bytecode.set(target, Policy::ALLOWED);
        set_for(&mut bytecode, target, Policy::DENIED, 30);
        // Another one in its place covers the same rule.
        set_for(&mut bytecode, target, per_second(1, 1), 60);
        let set_by = host::now();
        assert_eq!(bytecode.reason(&frame()), Reason::WithinLimit, "{target}");
        assert_ne!(bytecode.send(&frame()), Verdict::Pass, "{target}");
        bytecode.set_time(set_by + 60 * SECOND);
        for _ in 0..3 {
            assert_eq!(bytecode.reason(&frame()), Reason::Allowed, "{target}");
        }
    }
}

fn the_same_rule_with_an_end_shortens_no_rule_that_stays(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let begin = host::now();
    bytecode.set_time(begin);
    bytecode.set("192.0.2.7", Policy::DENIED);
    set_for(&mut bytecode, "192.0.2.7", Policy::DENIED, 30);
    let rule = list::get(&bytecode.tables, "192.0.2.7".parse().unwrap()).unwrap().unwrap();
    assert!(rule.expires_in.is_none() && rule.covers.is_none(), "{rule:?}");
    bytecode.set_time(begin + 600 * SECOND);
    assert_eq!(bytecode.reason(&frame()), Reason::Denied);
}

/// Deleting uncovers as well.
fn a_deleted_rule_gives_back_the_rule_that_it_covers(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set_time(host::now());
    bytecode.set("192.0.2.7", Policy::ALLOWED);
    set_for(&mut bytecode, "192.0.2.7", Policy::DENIED, 30);
    assert_eq!(bytecode.reason(&frame()), Reason::Denied);
    bytecode.delete("192.0.2.7");
    assert_eq!(bytecode.reason(&frame()), Reason::Allowed);
    bytecode.delete("192.0.2.7");
    assert_eq!(bytecode.reason(&frame()), Reason::WithinLimit);
}

/// The ban is set before the allow of a wider prefix, or after it.
fn an_allow_outranks_a_ban(front: Front) {
    let banning =
        Policy { ban: Ban { time: 600 * SECOND, most: 600 * SECOND, after: 1, reserved: 0 }, ..per_second(5, 5) };
    let mut bytecode = Bytecode::with(Settings { bans: true, ..front.settings() });
    bytecode.set_time(SECOND);
    bytecode.set("default", banning);
    while bytecode.send(&frame()) == Verdict::Pass {}
    bytecode.set_time(2 * SECOND);
    assert_eq!(bytecode.reason(&frame()), Reason::Banned);
    bytecode.set("192.0.2.0/24", Policy::ALLOWED);
    assert_eq!(bytecode.reason(&frame()), Reason::Allowed);
    assert_eq!(bytecode.tables.bans().unwrap().all().len(), 1, "the ban of the source stays");
    bytecode.set("192.0.2.0/24", banning);
    assert_eq!(bytecode.reason(&frame()), Reason::Banned);
}

with_and_without_cells!(
    a_rule_that_ends_gives_back_the_rule_that_it_covers,
    the_same_rule_with_an_end_shortens_no_rule_that_stays,
    a_deleted_rule_gives_back_the_rule_that_it_covers,
    an_allow_outranks_a_ban,
);
