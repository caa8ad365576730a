//! A change as the maps have it, and whether they have room for it.

use std::collections::{HashMap, HashSet};

use ratelimit_common::{
    identity::{class::Class, source::Source},
    limits::policy::PolicyId,
    maps::names::{PREFIX_RULES_MAX, SOURCE_RULES_MAX},
    rules::rule::{NEVER, Rule},
};

use crate::dataplane::{
    Error,
    rules::rule_key::Place,
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// A rule of one class, as the maps have it.
pub(crate) type Entry = (Source, Rule);

/// Entries up to which a change looks up its own rules instead of reading all.
pub(crate) const FEW: usize = 64;

/// The rules that a change meets, by prefix and class.
pub(crate) struct Existing {
    pub(crate) sources: HashMap<Source, Rule>,
    pub(crate) prefixes: HashMap<Source, Rule>,
    /// Whether these are all rules.
    pub(crate) are_all: bool,
}

impl Existing {
    /// Reads all rules, or those in the place of a small change.
    pub(crate) fn read(tables: &Tables, plan: &Plan) -> Result<Self, Error> {
        if plan.sources.len() + plan.prefixes.len() + plan.deleted.len() > FEW {
            return Self::read_all(tables);
        }
        let written = plan.sources.iter().map(|(source, _)| (*source, Place::Source(*source)));
        let written = written.chain(plan.prefixes.iter().map(|(source, _)| (*source, Place::prefix(source))));
        let mut existing = Self { sources: HashMap::new(), prefixes: HashMap::new(), are_all: false };
        for (source, place) in written.chain(plan.deleted.iter().map(|(source, place)| (*source, place.clone()))) {
            if let Some(rule) = place.get(tables)? {
                let rules = if place.is_source() { &mut existing.sources } else { &mut existing.prefixes };
                rules.insert(source, rule);
            }
        }
        Ok(existing)
    }

    /// Reads all rules.
    pub(crate) fn read_all(tables: &Tables) -> Result<Self, Error> {
        Ok(Self {
            sources: rule_maps::sources(tables)?.into_iter().collect(),
            prefixes: rule_maps::prefixes(tables)?.into_iter().collect(),
            are_all: true,
        })
    }

    /// Returns where the new rules have room. If not all rules are known, it assumes that there is enough.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyRules`] if there is none.
    pub(crate) fn room(&self, plan: &Plan) -> Result<Room, Error> {
        if !self.are_all {
            return Ok(Room::Beside);
        }
        let is_gone = |source: &Source, place: &Place| match place {
            Place::Source(_) => self.sources.contains_key(source),
            Place::Prefix(_) => self.prefixes.contains_key(source),
        };
        let gone = plan.deleted.iter().filter(|(source, place)| is_gone(source, place));
        let (sources, prefixes): (Vec<_>, Vec<_>) = gone.partition(|(_, place)| matches!(place, Place::Source(_)));
        let source_room = room("source", SOURCE_RULES_MAX, &self.sources, &plan.sources, sources.len())?;
        Ok(source_room.max(room("prefix", PREFIX_RULES_MAX, &self.prefixes, &plan.prefixes, prefixes.len())?))
    }

    /// Returns how many unexpired rules change: they get other limits, or an end, or lose it.
    pub(crate) fn replaced(&self, plan: &Plan) -> usize {
        let now = host::now();
        let says_else = |old: &Rule, new: &Rule| {
            old.expires > now && (old.policy != new.policy || (old.expires == NEVER) != (new.expires == NEVER))
        };
        let count = |old: &HashMap<Source, Rule>, new: &[Entry]| {
            new.iter().filter(|(source, new)| old.get(source).is_some_and(|old| says_else(old, new))).count()
        };
        count(&self.sources, &plan.sources) + count(&self.prefixes, &plan.prefixes)
    }

    /// Returns the policies of the rules that change or go.
    pub(crate) fn policies<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = PolicyId> + 'a {
        let sources = plan.sources.iter().filter_map(|(source, _)| self.sources.get(source));
        let prefixes = plan.prefixes.iter().filter_map(|(source, _)| self.prefixes.get(source));
        let deleted = plan.deleted.iter().filter_map(|(source, place)| match place {
            Place::Source(_) => self.sources.get(source),
            Place::Prefix(_) => self.prefixes.get(source),
        });
        sources.chain(prefixes).chain(deleted).map(|rule| rule.policy)
    }
}

/// Where new rules have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// Beside the rules to delete.
    Beside,
    /// Only in place of the rules to delete, which go first.
    InPlace,
}

/// A change as the maps have it.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) sources: Vec<Entry>,
    pub(crate) prefixes: Vec<Entry>,
    /// Classes whose default changes, with the policy and its origin.
    pub(crate) defaults: Vec<(Class, PolicyId, u8)>,
    pub(crate) deleted: Vec<(Source, Place)>,
    /// Sources whose ban is lifted.
    pub(crate) lifted: Vec<Source>,
}

impl Plan {
    /// Returns the policies of the rules and defaults that it writes.
    pub(crate) fn policies(&self) -> HashSet<PolicyId> {
        let rules = self.sources.iter().chain(&self.prefixes).map(|(_, rule)| rule.policy);
        rules.chain(self.defaults.iter().map(|(_, policy, _)| *policy)).collect()
    }
}

fn room(
    kind: &'static str,
    most: u32,
    old: &HashMap<Source, Rule>,
    new: &[Entry],
    deleted: usize,
) -> Result<Room, Error> {
    let all = old.len() + new.iter().filter(|(source, _)| !old.contains_key(source)).count();
    match most as usize {
        room if all <= room => Ok(Room::Beside),
        room if all - deleted <= room => Ok(Room::InPlace),
        _ => Err(Error::TooManyRules { kind, most }),
    }
}
