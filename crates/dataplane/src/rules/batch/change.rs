//! What an operator, a file or the daemon requests of the rules.

use std::{collections::HashMap, time::Duration};

use ratelimit_common::{
    identity::service::Service,
    rules::{
        comment::{Comment, Owner},
        rule::NEVER,
    },
};

use crate::{
    rules::{batch::free_space::FEW, list::Listed, owners::Sharing, spec::RuleSpec, target::Target},
    sys::host,
};

/// A rule to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedRule {
    /// The packets that it matches.
    pub target: Target,
    /// Index of its spec in the change.
    pub spec: usize,
    /// Nanoseconds of the monotonic clock; [`NEVER`] if it stays.
    pub expires: u64,
    /// Its origin: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
}

/// What changes.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The specs of the rules, each once.
    pub specs: Vec<RuleSpec>,
    /// Rules to write. No two have the same target.
    pub rules: Vec<RequestedRule>,
    /// Comments of these rules. An empty one removes the comment.
    pub comments: HashMap<Target, Comment>,
    /// Whether a rule that repeats the one in force keeps its comment where none is given.
    pub keeps_comments: bool,
    /// What becomes of a rule *deny* without an end that has another comment, or none.
    pub sharing: Sharing,
    /// Further owners of the rules *deny* that it writes.
    pub owners: HashMap<Target, Vec<Owner>>,
    /// Rules to delete. None of them is written. A rule that one of them covers takes its place.
    pub deleted: Vec<Target>,
    /// The owner that ends, of deleted rules that others may have too. Without one here, all of them end.
    pub ended: HashMap<Target, Comment>,
    /// Covered rules to delete. The rules that cover them stay.
    pub deleted_below: Vec<Target>,
    /// Sources whose ban is lifted. Their rules stay.
    pub lifted: Vec<Target>,
    /// Whether bans of the sources of its rules stay. They do not come back if the change is undone.
    pub keeps_bans: bool,
    /// The rules of an operator that stay.
    pub protected: Protected,
    /// Whether an interface with a capacity comes later. Until then, elastic limits act as hard limits.
    pub awaits_capacity: bool,
}

/// What a change has done.
#[derive(Debug, Default)]
pub struct Changed {
    /// The rules in force that it has replaced by others.
    pub replaced: Vec<Listed>,
    /// Rules that were requested with an end and stay without one, because the same rule was there without one.
    pub lasting: usize,
    /// Owners that were forgotten, because a rule has too many.
    pub forgotten: usize,
    /// Comments of rules with an end that were left out, because there are too many.
    pub uncommented: usize,
}

/// Which rules *allow* of an operator a change does not overrule. A rule that allows, too, overrules none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protected {
    /// None.
    #[default]
    None,
    /// Those that it would replace.
    Replaced,
    /// These, and those for prefixes around its own.
    Around,
}

/// Returns the end of a rule that expires after `life`, in nanoseconds of the monotonic clock.
pub fn end(life: Option<Duration>) -> u64 {
    life.map_or(NEVER, |life| host::now().saturating_add(u64::try_from(life.as_nanos()).unwrap_or(NEVER)))
}

impl Change {
    /// Writes one rule, which expires after `life`.
    #[must_use]
    pub fn set(target: Target, spec: &RuleSpec, life: Option<Duration>, origin: u8) -> Self {
        let rule = RequestedRule { target, spec: 0, expires: end(life), origin };
        Self { specs: vec![spec.clone()], rules: vec![rule], keeps_comments: true, ..Self::default() }
    }

    /// Gives the rules that it writes this comment, if there is one.
    #[must_use]
    pub fn with_comment(mut self, comment: Option<&str>) -> Self {
        if let Some(comment) = comment.and_then(|comment| Comment::new(comment).ok()) {
            self.comments = self.rules.iter().map(|rule| (rule.target, comment)).collect();
        }
        self
    }

    /// Adds a rule with one of the specs, which expires at this moment.
    pub fn add(&mut self, target: Target, spec: usize, expires: u64, origin: u8, comment: Option<Comment>) {
        self.rules.push(RequestedRule { target, spec, expires, origin });
        self.comments.extend(comment.map(|comment| (target, comment)));
    }

    /// Deletes one rule.
    #[must_use]
    pub fn delete(target: Target) -> Self {
        Self { deleted: vec![target], ..Self::default() }
    }

    /// Ends the owner with this comment. The rule stays as long as it has others.
    #[must_use]
    pub fn end_owner(target: Target, comment: Comment) -> Self {
        Self { ended: HashMap::from([(target, comment)]), ..Self::delete(target) }
    }

    /// Ends the owner with this comment of the rule *deny* that the one of this target covers.
    #[must_use]
    pub fn end_owner_below(target: Target, comment: Comment) -> Self {
        Self { ended: HashMap::from([(target, comment)]), ..Self::delete_below(target) }
    }

    /// Deletes the rule that the one of this target covers.
    #[must_use]
    pub fn delete_below(target: Target) -> Self {
        Self { deleted_below: vec![target], ..Self::default() }
    }

    /// Lifts the ban of one source.
    #[must_use]
    pub fn lift(target: Target) -> Self {
        Self { lifted: vec![target], ..Self::default() }
    }

    /// Returns the targets of rules that it writes or deletes.
    pub fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        let deleted = self.deleted.iter().chain(&self.deleted_below);
        self.rules.iter().map(|rule| rule.target).chain(deleted.copied())
    }

    /// Returns the services of the rules that it writes.
    pub fn services(&self) -> Vec<Service> {
        let mut services = Vec::new();
        for rule in &self.rules {
            if !services.contains(&rule.target.service) {
                services.push(rule.target.service);
            }
        }
        services
    }

    /// Returns whether it is so small that it reads its own rules instead of all.
    pub fn is_small(&self) -> bool {
        self.targets().count() + self.lifted.len() <= FEW
    }
}
