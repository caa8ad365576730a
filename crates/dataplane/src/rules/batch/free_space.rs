//! A change as the maps have it, and whether they have room for it.

use std::collections::{BTreeSet, HashMap, HashSet};

use ratelimit_common::{
    identity::{class::Class, service::Service, source::Source},
    limits::policy::PolicyId,
    maps::names::{PREFIX_RULES_MAX, SOURCE_RULES_MAX},
    rules::{
        comment::{Comment, Owner},
        rule::{APPLICATION, NEVER, Rule},
    },
};

use crate::{
    Error,
    rules::{
        batch::remarks::Remarks,
        comments::{Comments, has_deny},
        owners::{Owners, Sharing},
        rule_key::Place,
    },
    tables::{open::Tables, rule_maps},
};

/// A rule of one class, as the maps have it.
pub(super) type Entry = (Source, Rule);

/// Entries up to which a change looks up its own rules instead of reading all.
pub(super) const FEW: usize = 64;

/// The rules that a change meets, by prefix and class.
pub(super) struct Existing {
    pub sources: HashMap<Source, Rule>,
    pub prefixes: HashMap<Source, Rule>,
    /// Whether these are all rules.
    pub are_all: bool,
}

impl Existing {
    /// Reads all rules, or those in the place of a small change.
    pub(super) fn read(tables: &Tables, plan: &Plan) -> Result<Self, Error> {
        let deleted = || plan.deleted.iter().chain(&plan.deleted_below);
        if plan.sources.len() + plan.prefixes.len() + deleted().count() > FEW {
            return Self::read_all(tables);
        }
        let written = plan.sources.iter().map(|(source, _)| (*source, Place::Source(*source)));
        let written = written.chain(plan.prefixes.iter().map(|(source, _)| (*source, Place::prefix(source))));
        let mut existing = Self { sources: HashMap::new(), prefixes: HashMap::new(), are_all: false };
        for (source, place) in written.chain(deleted().cloned()) {
            if let Some(rule) = place.get(tables)? {
                let rules = if place.is_source() { &mut existing.sources } else { &mut existing.prefixes };
                rules.insert(source, rule);
            }
        }
        Ok(existing)
    }

    /// Returns the owners of the rules *deny* in the places of a plan.
    pub(super) fn owners(&self, tables: &Tables, plan: &Plan, now: u64) -> Result<HashMap<Source, Owners>, Error> {
        let of = |rules: &HashMap<Source, Rule>, source: &Source| Some((*source, *rules.get(source)?));
        let sources = plan.sources.iter().filter_map(|(source, _)| of(&self.sources, source));
        let prefixes = plan.prefixes.iter().filter_map(|(source, _)| of(&self.prefixes, source));
        let gone = plan.deleted.iter().chain(&plan.deleted_below);
        let gone = gone.filter_map(|(source, place)| Some((*source, *self.get(source, place)?)));
        let met: Vec<Entry> = sources.chain(prefixes).chain(gone).filter(|(_, rule)| has_deny(rule)).collect();
        if met.is_empty() {
            return Ok(HashMap::new());
        }
        let comments = Comments::of_owners(tables, &met)?;
        Ok(met.iter().map(|(source, rule)| (*source, Owners::of(&comments, source, rule, now))).collect())
    }

    /// Reads all rules.
    pub(super) fn read_all(tables: &Tables) -> Result<Self, Error> {
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
    pub(super) fn room(&self, plan: &Plan) -> Result<Room, Error> {
        if !self.are_all {
            return Ok(Room::Beside);
        }
        let gone = plan.deleted.iter().filter(|(source, place)| self.get(source, place).is_some());
        let (sources, prefixes): (Vec<_>, Vec<_>) = gone.partition(|(_, place)| matches!(place, Place::Source(_)));
        let source_room = room("source", SOURCE_RULES_MAX, &self.sources, &plan.sources, sources.len())?;
        Ok(source_room.max(room("prefix", PREFIX_RULES_MAX, &self.prefixes, &plan.prefixes, prefixes.len())?))
    }

    /// Returns the old and the new policy of every rule that gets another one.
    pub(super) fn changed_policies<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (PolicyId, PolicyId)> + 'a {
        let pair = |old: &HashMap<Source, Rule>, (source, new): &Entry| Some((old.get(source)?.policy, new.policy));
        let sources = plan.sources.iter().filter_map(move |entry| pair(&self.sources, entry));
        sources.chain(plan.prefixes.iter().filter_map(move |entry| pair(&self.prefixes, entry)))
    }

    /// Returns the rules in force that others replace: they get other limits, an end, an earlier end, or lose it.
    pub(super) fn replaced(&self, plan: &Plan, now: u64) -> Vec<Entry> {
        let has_other_end =
            |old: &Rule, new: &Rule| new.expires < old.expires || old.expires != new.expires && new.expires == NEVER;
        let says_else = |old: &Rule, new: &Rule| old.policy != new.policy || has_other_end(old, new);
        let replaced = |rules: &HashMap<Source, Rule>, (source, new): &Entry| {
            let old = rules.get(source)?.at(now).filter(|old| old.origin != APPLICATION)?;
            says_else(&old, new).then_some((*source, old))
        };
        let sources = plan.sources.iter().filter_map(|entry| replaced(&self.sources, entry));
        sources.chain(plan.prefixes.iter().filter_map(|entry| replaced(&self.prefixes, entry))).collect()
    }

    /// Returns the rule in a place, also one that has expired.
    pub(super) fn get(&self, source: &Source, place: &Place) -> Option<&Rule> {
        if place.is_source() { self.sources.get(source) } else { self.prefixes.get(source) }
    }

    /// Returns the policies of the rules that change or go.
    pub(super) fn policies<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = PolicyId> + 'a {
        let sources = plan.sources.iter().filter_map(|(source, _)| self.sources.get(source));
        let prefixes = plan.prefixes.iter().filter_map(|(source, _)| self.prefixes.get(source));
        let deleted = plan.deleted.iter().filter_map(|(source, place)| self.get(source, place));
        sources.chain(prefixes).chain(deleted).flat_map(|rule| rule.policies())
    }
}

/// Where new rules have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Room {
    /// Beside the rules to delete.
    Beside,
    /// Only in place of the rules to delete, which go first.
    InPlace,
}

/// A change as the maps have it.
#[derive(Default)]
pub(super) struct Plan {
    pub sources: Vec<Entry>,
    pub prefixes: Vec<Entry>,
    /// Classes whose default changes, with the policy and its origin.
    pub defaults: Vec<(Class, PolicyId, u8)>,
    pub deleted: Vec<(Source, Place)>,
    /// The owner that ends, where a rule does not end as a whole.
    pub ended: HashMap<Source, Comment>,
    /// Further owners of the rules *deny* that it writes.
    pub further: HashMap<Source, Vec<Owner>>,
    /// The owners of the rules *deny* that the change meets.
    pub owners: HashMap<Source, Owners>,
    /// What becomes of rules without an end that are requested again.
    pub sharing: Sharing,
    /// Owners that were forgotten.
    pub forgotten: usize,
    /// Places whose covered rule goes.
    pub deleted_below: Vec<(Source, Place)>,
    /// Sources whose ban is lifted.
    pub lifted: Vec<Source>,
    /// Whether bans of the sources of its rules stay.
    pub keeps_bans: bool,
    /// Lanes that no limit used before.
    pub fresh_lanes: BTreeSet<u32>,
    /// The services of its rules.
    pub services: Vec<Service>,
    /// The comments that are given, by the source of their rule, or the key of a default.
    pub comments: HashMap<Source, Comment>,
    /// Whether a repeated rule keeps its comment where none is given.
    pub keeps_comments: bool,
    /// What it does to comments.
    pub(super) remarks: Remarks,
    /// Whether the program must be told of one of them.
    pub is_new_service: bool,
}

impl Plan {
    /// Returns the policies of the rules and defaults that it writes.
    pub(super) fn policies(&self) -> HashSet<PolicyId> {
        let rules = self.sources.iter().chain(&self.prefixes).flat_map(|(_, rule)| rule.policies());
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
