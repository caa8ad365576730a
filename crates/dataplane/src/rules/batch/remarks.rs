//! The comments of the rules that a change meets: which ones it writes, and which ones go with their rules.

use std::collections::HashMap;

use ratelimit_common::{
    identity::{class::Class, service::ClassEntry, source::Source},
    limits::policy::{DENIED_ID, PolicyId, UNLIMITED_ID},
    rules::{
        comment::{self, Comment, Owner},
        rule::Rule,
    },
};

use crate::{
    Error,
    rules::{
        comments::{self, Comments},
        owners::Owners,
    },
    tables::open::Tables,
};

/// What a change does to comments.
#[derive(Default)]
pub(super) struct Remarks {
    /// Comments to write, before the rules.
    set: Vec<(Source, Owner)>,
    /// Keys of comments that rules of the same policy take over: the old key and the new one.
    kept: Vec<(Source, Source)>,
    /// Keys of comments to remove, after the rules.
    gone: Vec<Source>,
}

/// The comments before a change wrote its own.
pub(super) struct Before(Vec<(Source, Option<Owner>)>);

impl Remarks {
    /// Adds a place that the change writes. `requested` is its rule, `new` what the place has then, and `old` what it
    /// has now. `keeps` tells whether a repeated rule keeps its comment where none is given.
    pub(super) fn write(
        &mut self,
        (given, keeps): (Option<&Comment>, bool),
        source: &Source,
        requested: &Rule,
        new: &Rule,
        old: Option<&Rule>,
        now: u64,
    ) {
        self.leave(source, old, Some(new));
        let key = comment::key(source, requested);
        if !comments::keys(source, new).any(|known| known == key) {
            // The rule that is there already stays as it is.
            return;
        }
        let is_there = old.is_some_and(|old| comments::keys(source, old).any(|known| known == key));
        let same = old.and_then(|old| old.at(now)).filter(|old| old.policy == requested.policy);
        self.give(given, keeps, key, if is_there { Some(key) } else { same.map(|old| comment::key(source, &old)) });
    }

    /// Adds a place whose rule *deny*, or the one that its rule covers, has these owners then.
    pub(super) fn own(&mut self, source: &Source, rule: &Rule, owners: &Owners, old: Option<&Rule>) {
        self.leave(source, old, Some(rule));
        let denying = [Some(*rule), rule.below()].into_iter().flatten().find(|rule| rule.policy == DENIED_ID);
        let (key, all) = (comment::key(source, &denying.unwrap_or(*rule)), owners.all());
        match all.first().map(Owner::comment).filter(|comment| *comment != Comment::EMPTY) {
            Some(comment) => self.set.push((key, Owner::comment_of_rule(&comment))),
            None => {
                let is_there = old.is_some_and(|old| comments::keys(source, old).any(|known| known == key));
                self.gone.extend(is_there.then_some(key));
            }
        }
        let further = owners.further();
        self.set.extend(further.iter().enumerate().map(|(number, owner)| (comment::further(source, number), *owner)));
        self.forget_further(source, owners, further.len());
    }

    /// Removes the entries of further owners, except the first ones.
    pub(super) fn forget_further(&mut self, source: &Source, owners: &Owners, kept: usize) {
        self.gone.extend((kept..owners.entries()).map(|number| comment::further(source, number)));
    }

    /// Leaves out new entries of rules with an end. Those that are there change: otherwise, a rule could have the
    /// comment of an owner that is no longer its first. Returns how many entries were left out.
    pub(super) fn leave_out_bans(&mut self, tables: &Tables) -> Result<usize, Error> {
        let keys = self.set.iter().map(|(key, _)| *key).filter(comment::is_of_ban);
        let there = Comments::of(tables, &keys.collect::<Vec<_>>())?;
        let before = self.set.len();
        self.set.retain(|(key, _)| !comment::is_of_ban(key) || there.owner(key).is_some());
        Ok(before - self.set.len())
    }

    /// Adds a default that the change writes.
    fn write_default(
        &mut self,
        (given, keeps): (Option<&Comment>, bool),
        (class, policy, origin): (Class, u32, u8),
        old: &ClassEntry,
    ) {
        let old_key = comment::of_default(class, old.default_policy, old.default_origin);
        let key = comment::of_default(class, policy, origin);
        if old.default_policy != UNLIMITED_ID && key != old_key {
            self.gone.push(old_key);
        }
        if policy != UNLIMITED_ID {
            self.give(given, keeps, key, (old.default_policy == policy).then_some(old_key));
        }
    }

    fn give(&mut self, given: Option<&Comment>, keeps: bool, key: Source, same: Option<Source>) {
        match (given, same) {
            (Some(comment), _) if *comment != Comment::EMPTY => self.set.push((key, Owner::comment_of_rule(comment))),
            (None, Some(old)) if keeps && old != key => self.kept.push((old, key)),
            (None, Some(_)) if keeps => {}
            (_, Some(old)) if old == key => self.gone.push(key),
            _ => {}
        }
    }

    /// Adds a place whose rule changes to `new`, or goes.
    fn leave(&mut self, source: &Source, old: Option<&Rule>, new: Option<&Rule>) {
        let Some(old) = old else { return };
        let stays = |key: &Source| new.is_some_and(|new| comments::keys(source, new).any(|known| known == *key));
        self.gone.extend(comments::keys(source, old).filter(|key| !stays(key)));
    }

    /// Adds a place whose rule the change deletes. `old` is its rule, in force or not.
    pub(super) fn delete(&mut self, source: &Source, old: Option<&Rule>, now: u64) {
        let below = old.and_then(|old| old.at(now)).and_then(Rule::below);
        self.leave(source, old, below.as_ref());
    }

    /// Adds a place whose covered rule the change deletes.
    pub(super) fn delete_below(&mut self, source: &Source, old: Option<&Rule>) {
        self.leave(source, old, old.map(|old| old.bare()).as_ref());
    }

    /// Adds a default that the change writes: its class, policy and origin. `comment` is the one that is given, and
    /// whether a default that is repeated keeps its own.
    pub(super) fn default(
        &mut self,
        tables: &Tables,
        default: (Class, PolicyId, u8),
        comment: (Option<&Comment>, bool),
    ) -> Result<(), Error> {
        let old = tables.classes.get(u32::from(default.0))?;
        self.write_default(comment, default, &old);
        Ok(())
    }

    /// Writes the comments of the new rules. They do not show before their rules are written.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyComments`] if there is no space. Nothing has changed then.
    pub(super) fn set(&self, tables: &mut Tables) -> Result<Before, Error> {
        let old: Vec<Source> = self.kept.iter().map(|(old, _)| *old).collect();
        let kept = if old.is_empty() { Comments::default() } else { Comments::of(tables, &old)? };
        let kept = self.kept.iter().filter_map(|(old, new)| Some((*new, *kept.owner(old)?)));
        let set: Vec<(Source, Owner)> = self.set.iter().copied().chain(kept).collect();
        if set.is_empty() {
            return Ok(Before(Vec::new()));
        }
        let keys: Vec<Source> = set.iter().map(|(key, _)| *key).collect();
        let before = Comments::of(tables, &keys)?;
        let changed = set.iter().filter(|(key, comment)| before.owner(key) != Some(comment));
        let changed: Vec<(Source, Owner)> = changed.copied().collect();
        let before = Before(changed.iter().map(|(key, _)| (*key, before.owner(key).copied())).collect());
        if let Err(error) = comments::set(tables, &changed) {
            // The operator must see the failure itself, not one of undoing.
            let _ = before.restore(tables);
            return Err(error);
        }
        Ok(before)
    }

    /// Removes the comments whose rules are gone.
    pub(super) fn forget(&self, tables: &mut Tables) -> Result<(), Error> {
        comments::remove(tables, &self.gone)
    }
}

impl Before {
    /// Restores them.
    pub(super) fn restore(self, tables: &mut Tables) -> Result<(), Error> {
        let (there, absent): (Vec<_>, Vec<_>) = self.0.into_iter().partition(|(_, comment)| comment.is_some());
        let absent: Vec<Source> = absent.into_iter().map(|(key, _)| key).collect();
        comments::remove(tables, &absent)?;
        let there: HashMap<Source, Owner> =
            there.into_iter().filter_map(|(key, comment)| Some((key, comment?))).collect();
        comments::set(tables, &there.into_iter().collect::<Vec<_>>())
    }
}
