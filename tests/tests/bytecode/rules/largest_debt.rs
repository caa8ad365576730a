//! The largest debt of the limits in use falls with the limit that had it, and no other debt is forgiven by that.

use std::time::Duration;

use ratelimit_common::{
    identity::class::ANY,
    limits::{algorithm::Algorithm, limit::SECOND, policy::Policy},
    meters::gcra::{self, Units},
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    Error,
    program::loader::Settings,
    rules::{
        batch::{self, Change},
        policies,
        spec::RuleSpec,
    },
};
use ratelimit_tests::{Bytecode, per_second};

use crate::meters::{ADDRESS, HOUR, MINUTE, frame, limit, passed};

const SLOW: &str = "10.0.0.0/8";

/// Returns a limit of ten packets per minute, with which one packet owes six seconds.
fn slow() -> Policy {
    limit(Algorithm::TokenBucket, 10, MINUTE)
}

/// Loads a program with one cell for all sources and a default limit of 1000 packets per second.
fn load() -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { cells: 1, ..Settings::default() });
    bytecode.set("default", per_second(1_000, 1_000));
    bytecode.set_time(HOUR);
    bytecode
}

fn largest(bytecode: &Bytecode) -> Units {
    bytecode.tables.control().unwrap().largest_debt
}

/// Returns the largest debt under the default limit alone.
fn of_default(bytecode: &Bytecode) -> Units {
    let tables = &bytecode.tables;
    let policy = tables.policies.get(tables.default_policy(ANY).unwrap()).unwrap();
    policies::largest_debt(&policy) + gcra::units(tables.control().unwrap().tick)
}

#[test]
fn it_falls_when_a_slow_limit_is_deleted_replaced_or_over() {
    let mut bytecode = load();
    let default = of_default(&bytecode);
    assert_eq!(largest(&bytecode), default);
    for instead in [None, Some(per_second(500, 10)), Some(Policy::DENIED)] {
        bytecode.set(SLOW, slow());
        assert!(largest(&bytecode) > 10 * default, "{instead:?}");
        match instead {
            Some(policy) => bytecode.set(SLOW, policy),
            None => bytecode.delete(SLOW),
        }
        assert_eq!(largest(&bytecode), default, "{instead:?}");
    }
    // A rule that has expired is removed by the next change.
    let target = SLOW.parse().unwrap();
    let spec = RuleSpec::from(slow());
    batch::set(&mut bytecode.tables, target, &spec, Some(Duration::ZERO), COMMAND).unwrap();
    assert!(largest(&bytecode) > 10 * default);
    bytecode.set("192.0.2.0/24", Policy::DENIED);
    assert_eq!(largest(&bytecode), default);
}

#[test]
fn it_stays_while_another_rule_has_the_slow_limit() {
    let mut bytecode = load();
    bytecode.set(SLOW, slow());
    bytecode.set("192.0.2.0/24", slow());
    let before = largest(&bytecode);
    bytecode.delete(SLOW);
    assert_eq!(largest(&bytecode), before);
    bytecode.delete("192.0.2.0/24");
    assert_eq!(largest(&bytecode), of_default(&bytecode));
}

#[test]
fn a_refused_change_does_not_raise_it() {
    let mut bytecode = load();
    let before = largest(&bytecode);
    let change = Change::set(SLOW.parse().unwrap(), &RuleSpec::from(slow()), None, COMMAND);
    let refuse = |_: &_| Err(Error::NoCapacity);
    assert!(batch::apply(None, &mut bytecode.tables, &change, &mut |_| {}, &refuse).is_err());
    assert_eq!(largest(&bytecode), before);
}

#[test]
fn what_other_sources_owe_stays() {
    let mut bytecode = load();
    bytecode.set(SLOW, slow());
    let (slow, other) = (frame([10, 0, 0, 1]), frame(ADDRESS));
    assert_eq!(passed(&bytecode, &other, 2_000), 1_000);
    assert!(passed(&bytecode, &slow, 20) > 0);
    bytecode.delete(SLOW);
    // Within a tenth of a second, the source of the default limit earns a hundred packets.
    bytecode.set_time(HOUR + SECOND / 10);
    let admitted = passed(&bytecode, &other, 1_000);
    assert!(admitted <= 101, "{admitted} packets passed");
    // The other one's debt is gone when the new largest debt is over.
    bytecode.set_time(HOUR + 3 * SECOND);
    assert_eq!(passed(&bytecode, &other, 2_000), 1_000);
}
