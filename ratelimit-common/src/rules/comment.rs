//! Comments of rules, which only commands read.
//!
//! The key of a comment names the rule as a whole: its place, its policy, its origin, and whether it has an end. So a
//! comment never shows with another rule. One without its rule is left over, and is removed.

use crate::{
    identity::{class::Class, source::Source, text::Text},
    limits::policy::PolicyId,
    rules::rule::{NEVER, Rule},
};

/// The most bytes of a comment.
pub const COMMENT_BYTES: usize = 64;

/// One entry of the map of comments.
pub type Comment = Text<COMMENT_BYTES>;

/// First bit of the origin in [`Source::parent`] of a key, behind the policy.
const ORIGIN_SHIFT: u32 = 16;
/// Bit of [`Source::parent`] of a key: the rule has no end.
const LASTS: u32 = 1 << 24;

/// Returns the key of the comment of a rule at this source, which has the rule's class.
#[must_use]
pub const fn key(source: &Source, rule: &Rule) -> Source {
    let mut key = *source;
    let lasts = if rule.expires == NEVER { LASTS } else { 0 };
    key.parent = rule.policy | (rule.origin as u32) << ORIGIN_SHIFT | lasts;
    key
}

/// Returns the key of the comment of a class's default with this policy and origin.
#[must_use]
pub const fn of_default(class: Class, policy: PolicyId, origin: u8) -> Source {
    let mut every = Source::v4([0; 4]).shortened(0).of_class(class);
    every.family = 0;
    every.parent = policy | (origin as u32) << ORIGIN_SHIFT | LASTS;
    every
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::rule::{COMMAND, CONFIG, Covered};

    #[test]
    fn each_rule_has_its_own_key() {
        let source = Source::v4([192, 0, 2, 1]);
        let rule = |policy, origin, expires| Rule { policy, prefix: 32, origin, covered: Covered::NONE, expires };
        let keys = [
            key(&source, &rule(1, COMMAND, NEVER)),
            key(&source, &rule(2, COMMAND, NEVER)),
            key(&source, &rule(1, CONFIG, NEVER)),
            key(&source, &rule(1, COMMAND, 5)),
            key(&source.of_class(1), &rule(1, COMMAND, NEVER)),
            key(&source.shortened(24), &rule(1, COMMAND, NEVER)),
            key(&Source::v4([0; 4]).shortened(0), &rule(1, COMMAND, NEVER)),
            of_default(0, 1, COMMAND),
            of_default(1, 1, COMMAND),
        ];
        for (place, one) in keys.iter().enumerate() {
            assert!(keys[..place].iter().all(|other| other != one), "{one:?}");
        }
        // Its end is no part of it, so a rule keeps its comment when its end moves.
        assert_eq!(key(&source, &rule(1, COMMAND, 5)), key(&source, &rule(1, COMMAND, 6)));
    }
}
