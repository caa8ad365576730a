//! What a change of many rules comes to in the maps, and whether they have room for it.

use std::collections::HashMap;

use ratelimit_common::{
    class::Class,
    map::{PREFIX_RULES_MAX, SOURCE_RULES_MAX},
    policy::PolicyId,
    rule::{NEVER, Rule},
    source::Source,
};

use super::{Error, host, place::Place, tables::Tables};

/// A rule of one class, as the maps have it.
pub(super) type Entry = (Source, Rule);

/// What the rule maps hold, by prefix and class.
pub(super) struct Existing {
    pub(super) sources: HashMap<Source, Rule>,
    pub(super) prefixes: HashMap<Source, Rule>,
}

impl Existing {
    pub(super) fn read(tables: &Tables) -> Result<Self, Error> {
        Ok(Self {
            sources: tables.source_rules()?.into_iter().collect(),
            prefixes: tables.prefix_rules()?.into_iter().collect(),
        })
    }

    /// Whether all that is to be written has room, beside what is to be deleted or in its place.
    pub(super) fn room(&self, plan: &Plan) -> Result<Room, Error> {
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
    pub(super) fn replaced(&self, plan: &Plan) -> usize {
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
pub(super) enum Room {
    /// Beside what is to be deleted.
    Beside,
    /// Only in its place: that goes first.
    InPlace,
}

/// The same change as the maps have it.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) sources: Vec<Entry>,
    pub(super) prefixes: Vec<Entry>,
    /// Classes whose default changes, with the policy and its origin.
    pub(super) defaults: Vec<(Class, PolicyId, u8)>,
    pub(super) deleted: Vec<(Source, Place)>,
    /// Sources whose ban is lifted.
    pub(super) lifted: Vec<Source>,
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
