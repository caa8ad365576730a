use core::cell::Cell;

use super::*;
use ratelimit_common::rules::rule::Covered;

const fn rule(policy: PolicyId) -> Rule {
    Rule { policy, prefix: 32, origin: 1, covered: Covered::NONE, expires: u64::MAX }
}

static OWN: Rule = rule(7);
static OTHERS: Rule = rule(8);

/// Copies the rule that these lookups find, one after the other.
fn copy(lookups: [Option<&'static Rule>; 2]) -> (Option<Rule>, usize) {
    let number = Cell::new(0);
    let copy = unchanged(|| {
        number.set(number.get() + 1);
        lookups[number.get() - 1]
    });
    (copy, number.get())
}

#[test]
fn a_rule_is_copied_from_an_element_that_its_key_has_at_both_lookups() {
    assert_eq!(copy([Some(&OWN), Some(&OWN)]), (Some(OWN), 2));
    // The first element has got another key meanwhile. Nobody knows what was read from it.
    assert_eq!(copy([Some(&OTHERS), Some(&OWN)]), (Some(OWN), 2));
    assert_eq!(copy([Some(&OTHERS), None]), (None, 2));
    assert_eq!(copy([None, Some(&OWN)]), (None, 1));
}
