//! What a change of many rules comes to in the maps, and whether they have room for it.

use std::collections::HashMap;

use ratelimit_common::{
    identity::{class::Class, source::Source},
    limits::policy::PolicyId,
    maps::names::{PREFIX_RULES_MAX, SOURCE_RULES_MAX},
    rules::rule::{NEVER, Rule},
};

use crate::dataplane::{Error, rules::rule_key::Place, sys::host, tables::open::Tables};

/// A rule of one class, as the maps have it.
pub(crate) type Entry = (Source, Rule);

/// What the rule maps hold, by prefix and class.
pub(crate) struct Existing {
    pub(crate) sources: HashMap<Source, Rule>,
    pub(crate) prefixes: HashMap<Source, Rule>,
}

impl Existing {
    pub(crate) fn read(tables: &Tables) -> Result<Self, Error> {
        Ok(Self {
            sources: tables.source_rules()?.into_iter().collect(),
            prefixes: tables.prefix_rules()?.into_iter().collect(),
        })
    }

    /// Whether all that is to be written has room, beside what is to be deleted or in its place.
    pub(crate) fn room(&self, plan: &Plan) -> Result<Room, Error> {
        let is_gone = |source: &Source, place: &Place| match place {
            Place::Source(_) => self.sources.contains_key(source),
            Place::Prefix(_) => self.prefixes.contains_key(source),
        };
        let gone = plan.deleted.iter().filter(|(source, place)| is_gone(source, place));
        let (sources, prefixes): (Vec<_>, Vec<_>) = gone.partition(|(_, place)| matches!(place, Place::Source(_)));
        let source_room = room("source", SOURCE_RULES_MAX, &self.sources, &plan.sources, sources.len())?;
        Ok(source_room.max(room("prefix", PREFIX_RULES_MAX, &self.prefixes, &plan.prefixes, prefixes.len())?))
    }

    /// How many rules that have not ended say something else than what is to be written in their place: other terms, or that they end.
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
}

/// Where what is to be written has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// Beside what is to be deleted.
    Beside,
    /// Only in its place: that goes first.
    InPlace,
}

/// The same change as the maps have it.
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
