//! Comments and owners of rules, which only commands read.
//!
//! The key of a comment names the rule as a whole: its place, its policy, its origin, and whether it has an end. So a
//! comment never shows with another rule. One without its rule is left over, and is removed.
//!
//! A rule *deny* can have several owners, each with a comment and an end of its own. The rule has the comment, the origin
//! and the end of the one that ends last. The others have numbered entries.

use crate::{
    boundary,
    identity::{class::Class, source::Source, text::Text},
    limits::policy::{DENIED_ID, PolicyId},
    rules::rule::{NEVER, Rule},
};

/// The most bytes of a comment.
pub const COMMENT_BYTES: usize = 64;

/// A comment.
pub type Comment = Text<COMMENT_BYTES>;

/// The most owners of a rule.
pub const MOST_OWNERS: usize = 8;

/// One entry of the map of comments: the comment of a rule, or one of its further owners.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    bytes: [u8; COMMENT_BYTES],
    /// Nanoseconds of the monotonic clock at which a further owner ends; [`NEVER`] if it stays. 0 for a comment.
    pub expires: u64,
    /// Its origin. 0 for a comment.
    pub origin: u32,
    reserved: u32,
}
boundary!(Owner, size 80);

impl Owner {
    /// Returns an owner.
    #[must_use]
    pub const fn new(comment: &Comment, origin: u8, expires: u64) -> Self {
        Self { bytes: comment.bytes(), expires, origin: origin as u32, reserved: 0 }
    }

    /// Returns the entry of a rule's own comment.
    #[must_use]
    pub const fn comment_of_rule(comment: &Comment) -> Self {
        Self::new(comment, 0, 0)
    }

    /// Returns its comment, which can be empty.
    #[must_use]
    pub const fn comment(&self) -> Comment {
        Comment::of_bytes(self.bytes)
    }
}

/// First bit of the origin in [`Source::parent`] of a key, behind the policy.
const ORIGIN_SHIFT: u32 = 16;
/// Bit of [`Source::parent`] of a key: the rule has no end.
const LASTS: u32 = 1 << 24;
/// Bit of [`Source::parent`] of a key: it is that of a further owner, whose number is in the low bits.
const FURTHER: u32 = 1 << 31;

/// Returns the key of the comment of a rule at this source, which has the rule's class.
#[must_use]
pub const fn key(source: &Source, rule: &Rule) -> Source {
    let mut key = *source;
    let lasts = if rule.expires == NEVER { LASTS } else { 0 };
    key.parent = rule.policy | (rule.origin as u32) << ORIGIN_SHIFT | lasts;
    key
}

/// Returns the key of a further owner of the rule *deny* at this source.
#[must_use]
pub const fn further(source: &Source, number: usize) -> Source {
    let mut key = *source;
    key.parent = FURTHER | number as u32;
    key
}

/// Returns whether a key is that of a further owner, or of the comment of a rule *deny* with an end.
#[must_use]
pub const fn is_of_ban(key: &Source) -> bool {
    key.parent & FURTHER != 0 || key.parent & LASTS == 0 && key.parent & 0xffff == DENIED_ID
}

/// Returns the keys of all further owners of the rule *deny* at this source.
pub fn all_further(source: &Source) -> impl Iterator<Item = Source> + use<> {
    let source = *source;
    (0..MOST_OWNERS - 1).map(move |number| further(&source, number))
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
            further(&source, 0),
            further(&source, MOST_OWNERS - 2),
            further(&source.shortened(24), 0),
        ];
        for (place, one) in keys.iter().enumerate() {
            assert!(keys[..place].iter().all(|other| other != one), "{one:?}");
        }
        // Its end is no part of it, so a rule keeps its comment when its end moves.
        assert_eq!(key(&source, &rule(1, COMMAND, 5)), key(&source, &rule(1, COMMAND, 6)));
    }
}
