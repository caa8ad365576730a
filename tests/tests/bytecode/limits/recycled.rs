//! Parents and allowances while a flood spends the budget for new buckets or recycles the buckets in use.

use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    reason::Reason,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::spec::{ParentLimit, RuleSpec, Scope},
};
use ratelimit_tests::{Bytecode, Frame, Verdict, Walker, per_second};

const HOUR: u64 = 3_600 * SECOND;

fn load() -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { parents: true, soft: true, lanes: true, ..crate::settings() });
    bytecode.set_time(SECOND);
    bytecode
}

fn hourly(amount: u64) -> Policy {
    Limit { packets: Some(Rate { amount, period: HOUR }), ..Limit::default() }.policy().unwrap()
}

fn of_all(policy: Policy) -> Vec<ParentLimit> {
    vec![ParentLimit { scope: Scope::All, policy }]
}

/// Removes every bucket, as the kernel recycles them in a flood.
fn recycle(bytecode: &mut Bytecode) -> usize {
    let keys: Vec<Source> = bytecode.tables.buckets.open().unwrap().keys().collect::<Result<_, _>>().unwrap();
    for key in &keys {
        bytecode.tables.buckets.open_mut().unwrap().remove(key).unwrap();
    }
    keys.len()
}

fn passed(bytecode: &Bytecode, source: [u8; 4], packets: u32) -> u32 {
    let frame = Frame::udp(source, 9).bytes();
    (0..packets).map(|_| u32::from(bytecode.send(&frame) == Verdict::Pass)).sum()
}

#[test]
fn a_flood_above_the_budget_drops_no_client_of_a_limit_with_a_parent() {
    let mut bytecode = load();
    bytecode.set_admissions(100);
    let spec = RuleSpec { policy: per_second(1_000, 1_000), parents: of_all(per_second(1_000_000, 1_000_000)) };
    bytecode.set("default", spec);
    for number in 0..20_000 {
        bytecode.send(&Frame::udp(Walker::source(number), 9).bytes());
    }
    assert_eq!(bytecode.count(Reason::NotAdmitted), 0);
    assert_eq!(passed(&bytecode, [192, 0, 2, 1], 5), 5);
}

#[test]
fn a_recycled_parent_keeps_its_debt() {
    let mut bytecode = load();
    bytecode.set("default", RuleSpec { policy: Policy::UNLIMITED, parents: of_all(hourly(10)) });
    assert_eq!(passed(&bytecode, [192, 0, 2, 1], 20), 10);
    assert!(recycle(&mut bytecode) > 0);
    assert_eq!(passed(&bytecode, [192, 0, 2, 2], 20), 0);
    bytecode.set_time(SECOND + HOUR / 10 + SECOND);
    assert!(recycle(&mut bytecode) > 0);
    assert_eq!(passed(&bytecode, [192, 0, 2, 3], 20), 1);
}

#[test]
fn a_recycled_source_under_a_parent_keeps_its_debt() {
    let mut bytecode = load();
    bytecode.set("default", RuleSpec { policy: hourly(10), parents: of_all(per_second(1_000, 1_000)) });
    assert_eq!(passed(&bytecode, [192, 0, 2, 1], 20), 10);
    assert!(recycle(&mut bytecode) > 0);
    assert_eq!(passed(&bytecode, [192, 0, 2, 1], 20), 0);
}

#[test]
fn a_recycled_allowance_keeps_its_debt() {
    let mut bytecode = load();
    let policy = Policy { soft: 100, ..hourly(10) };
    bytecode.set("default", policy);
    assert_eq!(passed(&bytecode, [192, 0, 2, 1], 40), 20);
    assert!(recycle(&mut bytecode) > 0);
    assert_eq!(passed(&bytecode, [192, 0, 2, 1], 40), 0);
}

/// The cell repeats a parent's refusal: the packets that follow reach neither the parent nor a bucket.
#[test]
fn a_cell_repeats_the_refusal_of_a_parent() {
    let mut bytecode = load();
    bytecode.set("default", RuleSpec { policy: Policy::UNLIMITED, parents: of_all(hourly(10)) });
    let frame = Frame::udp([192, 0, 2, 1], 9).bytes();
    assert_eq!(passed(&bytecode, [192, 0, 2, 1], 11), 10);
    recycle(&mut bytecode);
    assert_eq!(bytecode.reason(&frame), Reason::OverParent);
    assert_eq!(recycle(&mut bytecode), 0, "the packet needed a bucket");
    // The refusal ends when the parent has room again.
    bytecode.set_time(SECOND + HOUR / 10 + SECOND);
    assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
    assert_eq!(bytecode.reason(&frame), Reason::OverParent);
}
