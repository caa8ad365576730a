//! The result of applying a configuration file.

use std::collections::HashSet;

use ratelimit_common::{
    limits::policy::Policy,
    rules::rule::{APPLICATION, BANNED},
};
use ratelimit_dataplane::{
    debts::restore::Restored,
    program::values::Difference,
    rules::{
        batch::Change,
        list,
        spec::RuleSpec,
        target::{Sources, Target},
    },
};
use serde::Serialize;

use super::stacked::LeftOff;
use crate::{
    controller::socket::request::{Replaced, UnusableList},
    limit::write,
};

/// The result.
#[derive(Debug, Default, Serialize)]
pub struct Applied {
    /// The number of rules that are new or changed.
    pub set: usize,
    /// Settings and capacities that changed.
    pub settings: Vec<Difference>,
    /// The new rules. At the start of a daemon, none is named.
    pub added: Named,
    /// The number of rules that only an earlier file had.
    pub deleted: usize,
    /// Those of them that are other than *allow*.
    pub named_deleted: Named,
    /// The rules that the file has replaced by others.
    pub replaced: Vec<Replaced>,
    /// The rules *allow* that only an earlier file had.
    pub removed_allows: Vec<String>,
    /// The number of rules that did not change.
    pub unchanged: usize,
    /// Rules of the file that a command has replaced.
    pub overruled: Vec<String>,
    /// Rules of the file that wait below a temporary rule, which a command has set.
    pub covered: Vec<String>,
    /// Rules of the file in whose place an SSH session is allowed.
    pub allowed_instead: Vec<String>,
    /// Interfaces that were attached.
    pub attached: Vec<String>,
    /// Interfaces that do not exist. The daemon attaches them when they appear.
    pub awaited: Vec<String>,
    /// Interfaces that are not attached because of others above or below them.
    pub left_off: Vec<LeftOff>,
    /// Interfaces that only an earlier file had, and that were detached.
    pub detached: Vec<String>,
    /// Why some of those are still attached.
    pub not_detached: Option<String>,
    /// Lists that were set, replaced or deleted.
    pub lists: Vec<String>,
    /// Lists whose files cannot be used.
    pub unusable_lists: Vec<UnusableList>,
    /// What is left out of lists of servers because of SSH sessions, in words.
    pub spared: Vec<String>,
    /// What of the lists and denies is not applied to this host's own network, in words.
    pub unapplied: Vec<String>,
    /// Limits of the file that outrank lower ones, in words.
    pub outranked: Vec<String>,
    /// Addresses of SSH sessions that were allowed.
    pub allowed_ssh: Vec<String>,
    /// Files that other users may change: the file, and those that it names.
    pub changeable: Vec<String>,
    /// How the fleet has changed, in words.
    pub fleet: Option<String>,
    /// The debts and bans that were put back, or why they were not. None if there were none.
    pub restored: Option<Result<Restored, String>>,
}

/// Returns a replaced rule in words, with the name of its policy.
pub(super) fn in_words(rule: &list::Listed) -> Replaced {
    Replaced { rule: rule.target.to_string(), before: with_name(&rule.spec) }
}

/// Returns a rule's spec in words, with the name of its policy.
fn with_name(spec: &RuleSpec) -> String {
    spec.name().map_or_else(String::new, |name| format!("{name}: ")) + &write::spec(spec)
}

/// Rules in words.
#[derive(Debug, Default, Serialize)]
pub struct Named {
    /// The first ones, the defaults before others.
    pub first: Vec<String>,
    /// The number of the others.
    pub more: usize,
}

impl Named {
    /// The most rules that are named.
    const MOST: usize = 5;

    fn of<'a>(rules: impl Iterator<Item = (&'a Target, &'a RuleSpec)>, verb: &str) -> Self {
        let mut rules: Vec<_> = rules.collect();
        rules.sort_unstable_by_key(|(target, _)| (target.sources != Sources::Default, **target));
        let in_words = |(target, spec): &(&Target, &RuleSpec)| format!("{target} ({verb}{})", with_name(spec));
        let first: Vec<String> = rules.iter().take(Self::MOST).map(in_words).collect();
        Self { more: rules.len() - first.len(), first }
    }
}

/// Returns the rules that a change adds to the running ones.
pub(super) fn added(running: &[list::Listed], change: &Change) -> Named {
    // A rule of the file takes the place of a ban, or of a limit of an application.
    let is_rule = |rule: &&list::Listed| !matches!(rule.origin, BANNED | APPLICATION);
    let running: HashSet<&Target> = running.iter().filter(is_rule).map(|rule| &rule.target).collect();
    let added = change.rules.iter().filter(|rule| !running.contains(&rule.target));
    Named::of(added.filter_map(|rule| Some((&rule.target, change.specs.get(rule.spec)?))), "")
}

/// Returns the rules other than *allow* that a change deletes.
pub(super) fn deleted(running: &[list::Listed], change: &Change) -> Named {
    let [deleted, below]: [HashSet<&Target>; 2] =
        [&change.deleted, &change.deleted_below].map(|targets| targets.iter().collect());
    let specs = running.iter().filter_map(|rule| {
        let covered = rule.covers.as_ref().filter(|_| below.contains(&rule.target)).map(|covered| &*covered.spec);
        Some((&rule.target, covered.or_else(|| deleted.contains(&rule.target).then_some(&*rule.spec))?))
    });
    Named::of(specs.filter(|(_, spec)| spec.policy != Policy::ALLOWED), "was ")
}

/// Returns the rules *allow* that a change deletes.
pub(super) fn removed_allows(running: &[list::Listed], change: &Change) -> Vec<String> {
    let is_allow = |spec: &RuleSpec| spec.policy == Policy::ALLOWED;
    let deleted: HashSet<&Target> = change.deleted.iter().collect();
    let below: HashSet<&Target> = change.deleted_below.iter().collect();
    let is_removed = |rule: &&list::Listed| {
        let covered = rule.covers.as_ref().is_some_and(|covered| is_allow(&covered.spec));
        is_allow(&rule.spec) && deleted.contains(&rule.target) || covered && below.contains(&rule.target)
    };
    running.iter().filter(is_removed).map(|rule| rule.target.to_string()).collect()
}
