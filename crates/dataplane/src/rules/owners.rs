//! The owners of a rule *deny*: tools and operators that deny the same source, told apart by their comments. The rule
//! ends when the last of them does.

use std::cmp::Reverse;

use ratelimit_common::{
    identity::source::Source,
    limits::policy::DENIED_ID,
    rules::{
        comment::{self, Comment, MOST_OWNERS, Owner},
        rule::{Covered, NEVER, Rule},
    },
};

use super::comments::Comments;

/// What becomes of a rule *deny* without an end if it is requested again without an end, and with another comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// It gets one more owner. If it has no comment, it gets this one.
    #[default]
    Named,
    /// It gets one more owner, also beside an operator who gave no comment.
    Any,
    /// It gets the other comment.
    Renamed,
}

/// The owners of one rule. The first one ends last: the rule has its comment, its origin and its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    all: Vec<Owner>,
    /// Entries of further owners in the map, also of those that have ended.
    entries: usize,
    /// Whether the rule *deny* is below one with another meaning, which has an end.
    is_covered: bool,
}

impl Owners {
    /// Returns the owners of the rule *deny* at a source: the one that is in force at `now`, or the one that it covers.
    pub fn of(comments: &Comments, source: &Source, rule: &Rule, now: u64) -> Self {
        let further: Vec<Owner> = comment::all_further(source).map_while(|key| comments.owner(&key).copied()).collect();
        let entries = further.len();
        let denies = |rule: &Rule| rule.policy == DENIED_ID;
        let in_force = rule.at(now);
        let is_covered = !in_force.as_ref().is_some_and(denies);
        let Some(rule) = in_force.and_then(|rule| if is_covered { rule.below() } else { Some(rule) }).filter(denies)
        else {
            return Self { entries, ..Self::default() };
        };
        let own = comments.get(&comment::key(source, &rule)).unwrap_or_default();
        let further = further.into_iter().filter(|owner| owner.expires > now);
        let all = [Owner::new(&own, rule.origin, rule.expires)].into_iter().chain(further).collect();
        Self { all, entries, is_covered }
    }

    /// Returns whether the rule *deny* is below one with another meaning.
    pub fn is_covered(&self) -> bool {
        self.is_covered
    }

    /// Returns those beside the first.
    pub fn further(&self) -> &[Owner] {
        self.all.get(1..).unwrap_or_default()
    }

    /// Returns all of them.
    pub fn all(&self) -> &[Owner] {
        &self.all
    }

    /// Returns how many entries of further owners the map has.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Gives an owner its end, and its place among the others. Of too many, the one that ends first is forgotten, and
    /// returned.
    pub fn set(&mut self, owner: Owner) -> Option<Owner> {
        match self.all.iter_mut().find(|known| known.comment() == owner.comment()) {
            Some(known) => *known = owner,
            None => self.all.push(owner),
        }
        self.all.sort_by_key(|owner| Reverse(owner.expires));
        if self.all.len() > MOST_OWNERS { self.all.pop() } else { None }
    }

    /// Removes the first owner, whose place another rule takes.
    pub fn replace_first(&mut self) {
        self.all.drain(..1.min(self.all.len()));
    }

    /// Ends an owner. Returns whether there was one with this comment.
    pub fn end(&mut self, comment: &Comment) -> bool {
        let before = self.all.len();
        self.all.retain(|owner| owner.comment() != *comment);
        self.all.len() < before
    }

    /// Returns a rule *deny* as it is with these owners. None if there are none.
    pub fn rule(&self, rule: Rule) -> Option<Rule> {
        let first = self.all.first()?;
        let covered = if first.expires == NEVER { Covered::NONE } else { rule.covered };
        Some(Rule { origin: first.origin as u8, expires: first.expires, covered, ..rule })
    }

    /// Returns a rule above the one *deny* that these owners have. None if that one does not stay: a rule with an end
    /// covers no other with an end.
    pub fn above(&self, rule: Rule) -> Option<Rule> {
        let below = self.rule(rule.below()?).filter(|below| below.expires == NEVER)?;
        Some(Rule { covered: Covered::new(&below), ..rule })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratelimit_common::rules::rule::COMMAND;

    use super::*;

    fn owner(name: &str, expires: u64) -> Owner {
        Owner::new(&Comment::new(name).unwrap(), COMMAND, expires)
    }

    fn names(owners: &Owners) -> Vec<String> {
        owners.all.iter().map(|owner| owner.comment().get().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn the_owner_that_ends_last_comes_first_and_an_equal_one_stays_behind() {
        let mut owners = Owners::default();
        for (name, end, expected) in [
            ("short", 5, vec!["short"]),
            ("long", 9, vec!["long", "short"]),
            ("", 9, vec!["long", "", "short"]),
            ("short", NEVER, vec!["short", "long", ""]),
            ("long", 3, vec!["short", "", "long"]),
        ] {
            assert_eq!(owners.set(owner(name, end)), None);
            assert_eq!(names(&owners), expected);
        }
        assert!(owners.end(&Comment::EMPTY) && !owners.end(&Comment::new("other").unwrap()));
        assert_eq!(names(&owners), ["short", "long"]);
    }

    proptest! {
        #[test]
        fn a_rule_ends_with_the_last_of_any_owners(changes in prop::collection::vec((0u8..12, 0u64..100), 0..40)) {
            let (mut owners, mut known) = (Owners::default(), std::collections::HashMap::new());
            for (name, end) in changes {
                let comment = Comment::new(&name.to_string()).unwrap();
                if end == 0 {
                    prop_assert_eq!(owners.end(&comment), known.remove(&comment).is_some());
                } else {
                    known.insert(comment, end);
                    if let Some(forgotten) = owners.set(Owner::new(&comment, COMMAND, end)) {
                        prop_assert_eq!(known.remove(&forgotten.comment()), Some(forgotten.expires));
                        prop_assert!(known.values().all(|end| *end >= forgotten.expires));
                    }
                }
                prop_assert!(owners.all.len() <= MOST_OWNERS);
                prop_assert_eq!(owners.all.first().map(|first| first.expires), known.values().max().copied());
                prop_assert_eq!(owners.all.len(), known.len());
            }
        }
    }
}
