//! Edits a list in force: writes only the entries that differ.

use std::path::Path;

use ratelimit_common::{
    identity::source::Source,
    rules::list::{List, Slots},
};

use crate::{
    Error,
    lists::{
        action::Action,
        change::{RequestedList, check_sizes},
        entries::Entries,
        listing::{self, InForce},
    },
    rules::{change_mark::ChangeMark, filter},
    sys::host,
    tables::open::Tables,
};

/// Gives the list of this name these entries and this end, if it is in force and both deny. Its other properties stay. No
/// check of SSH sessions follows, so the caller leaves out their addresses. With `rebuilds`, the filter of sources is
/// rebuilt, however many entries there are. Returns whether the list is edited: else nothing has changed.
///
/// # Errors
///
/// [`Error::Lists`] if there is no space, and [`Error::Bpf`] if the kernel refuses. The entries are as before, or the next
/// command that opens the instance completes the edit.
pub fn apply(pins: Option<&Path>, tables: &mut Tables, wanted: &RequestedList, rebuilds: bool) -> Result<bool, Error> {
    let now = host::now();
    let is_it = |InForce { list, .. }: &InForce| list.denies() && !list.is_over(now) && wanted.action == Action::Deny;
    let mut in_force = listing::in_force(tables)?.into_iter();
    let Some(running) = in_force.find(|running| running.name() == wanted.name && is_it(running)) else {
        return Ok(false);
    };
    let RequestedList { entries, expires, .. } = wanted;
    let after = List {
        expires: *expires,
        digest: entries.digest(),
        addresses: entries.addresses.len() as u32,
        prefixes: entries.prefixes.len() as u32,
        ..running.list
    };
    let present = Present::read(tables)?;
    let edit = Edit::towards(tables, &present, running.slot, entries)?;
    if edit.is_empty() && after == running.list {
        return Ok(true);
    }
    check_sizes([edit.addresses.left, edit.prefixes.left])?;
    let mark = ChangeMark::begin(pins)?;
    let outcome = edit.write(tables).and_then(|()| tables.lists.set_slot(running.slot, &after));
    let finished = match &outcome {
        Ok(()) => finish(tables, &edit, after.expires < running.list.expires, rebuilds),
        Err(_) => undo(tables, &running, &present),
    };
    // As for other changes: the next command repeats steps that have failed.
    if finished.is_ok() {
        mark.end();
    }
    outcome.and(finished).map(|()| true)
}

/// Makes buckets, cached refusals and the filter follow.
fn finish(tables: &mut Tables, edit: &Edit, ends_earlier: bool, rebuilds: bool) -> Result<(), Error> {
    // A later end alone needs no new decisions: those in force last until the end before.
    if ends_earlier || !edit.is_empty() {
        tables.renew()?;
    }
    if rebuilds { filter::renew(tables) } else { filter::renew_if_few(tables) }
}

fn undo(tables: &mut Tables, running: &InForce, before: &Present) -> Result<(), Error> {
    Edit::towards(tables, &Present::read(tables)?, running.slot, &before.entries(running.slot))?.write(tables)?;
    tables.lists.set_slot(running.slot, &running.list)?;
    // Packets can have seen an entry meanwhile.
    tables.renew()
}

/// The entries of all lists in order, with their slots.
struct Present {
    addresses: Vec<(u32, Slots)>,
    prefixes: Vec<(Source, Slots)>,
}

impl Present {
    fn read(tables: &Tables) -> Result<Self, Error> {
        let (mut addresses, mut prefixes) = (tables.lists.addresses()?, tables.lists.prefixes()?);
        addresses.sort_unstable();
        prefixes.sort_unstable_by_key(|(prefix, _)| order(prefix));
        Ok(Self { addresses, prefixes })
    }

    /// Returns the entries with a slot.
    fn entries(&self, slot: u32) -> Entries {
        let has = |slots: Slots| slots >> slot & 1 != 0;
        Entries {
            addresses: self.addresses.iter().filter(|(_, slots)| has(*slots)).map(|(key, _)| *key).collect(),
            prefixes: self.prefixes.iter().filter(|(_, slots)| has(*slots)).map(|(key, _)| *key).collect(),
        }
    }
}

/// What an edit writes.
struct Edit {
    addresses: Steps<u32>,
    prefixes: Steps<Source>,
}

impl Edit {
    /// Plans the way from what is in the maps to these entries of a slot.
    fn towards(tables: &Tables, present: &Present, slot: u32, wanted: &Entries) -> Result<Self, Error> {
        let control = tables.control()?;
        let slots = Slot { bit: 1 << slot, in_force: control.lists_in(control.generation) };
        let mut prefixes = wanted.prefixes.clone();
        prefixes.sort_unstable_by_key(order);
        Ok(Self {
            addresses: Steps::between(&present.addresses, &wanted.addresses, |key| *key, slots),
            prefixes: Steps::between(&present.prefixes, &prefixes, order, slots),
        })
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.prefixes.is_empty()
    }

    /// Writes new entries first, so that a source which only moves to another entry is always on the list.
    fn write(&self, tables: &mut Tables) -> Result<(), Error> {
        let Self { addresses, prefixes } = self;
        let sources = addresses.added.iter().map(|(address, _)| Source::v4(address.to_ne_bytes()));
        let sources: Vec<Source> = sources.chain(prefixes.added.iter().map(|(prefix, _)| *prefix)).collect();
        filter::add(tables, sources.iter())?;
        let maps = &tables.lists;
        maps.set_addresses(&addresses.added)?;
        maps.set_prefixes(&prefixes.added)?;
        maps.set_addresses(&addresses.cleared)?;
        maps.set_prefixes(&prefixes.cleared)?;
        maps.remove_addresses(&addresses.removed)?;
        maps.remove_prefixes(&prefixes.removed)
    }
}

/// A place of a prefix in an order of all.
fn order(prefix: &Source) -> (u8, [u8; 16], u8) {
    (prefix.family, prefix.address(), prefix.prefix)
}

/// The slot that is edited, and all slots in force.
#[derive(Debug, Clone, Copy)]
struct Slot {
    bit: Slots,
    in_force: Slots,
}

/// What an edit does to entries of one kind.
#[derive(Debug, PartialEq, Eq)]
struct Steps<K> {
    /// Entries that get the slot.
    added: Vec<(K, Slots)>,
    /// Entries that lose the slot, and that other lists have.
    cleared: Vec<(K, Slots)>,
    /// Entries that no list has any more.
    removed: Vec<K>,
    /// Entries after all that.
    left: usize,
}

impl<K: Copy> Steps<K> {
    /// Compares sorted entries.
    fn between<O: Ord>(has: &[(K, Slots)], wanted: &[K], order: impl Fn(&K) -> O, slot: Slot) -> Self {
        let mut steps = Self { added: Vec::new(), cleared: Vec::new(), removed: Vec::new(), left: 0 };
        let (mut has, mut wanted) = (has.iter().peekable(), wanted.iter().peekable());
        loop {
            let next = match (has.peek(), wanted.peek()) {
                (Some((has, _)), Some(wanted)) => order(has).min(order(wanted)),
                (Some((has, _)), None) => order(has),
                (None, Some(wanted)) => order(wanted),
                (None, None) => return steps,
            };
            let present = has.next_if(|(key, _)| order(key) == next);
            let is_wanted = wanted.next_if(|key| order(key) == next);
            if let Some(key) = present.map(|(key, _)| *key).or(is_wanted.copied()) {
                steps.add(key, present.map_or(0, |(_, slots)| slots & slot.in_force), is_wanted.is_some(), slot.bit);
            }
        }
    }

    /// Adds the step of one entry, which these slots in force have.
    fn add(&mut self, key: K, has: Slots, is_wanted: bool, bit: Slots) {
        let others = has & !bit;
        match (has & bit != 0, is_wanted) {
            (false, true) => self.added.push((key, others | bit)),
            (true, false) if others == 0 => self.removed.push(key),
            (true, false) => self.cleared.push((key, others)),
            _ => {}
        }
        self.left += usize::from(is_wanted || others != 0);
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.cleared.is_empty() && self.removed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Slots 0 to 5, of which some are in force.
        #[test]
        fn an_edit_gives_exactly_the_wanted_entries_the_slot_and_changes_no_other_list(
            has in prop::collection::btree_map(0u32..12, 1u64..64, 0..12),
            wanted in prop::collection::btree_set(0u32..12, 0..12),
            in_force in (0u64..64).prop_map(|others| others | 0b10),
        ) {
            let sorted: Vec<(u32, Slots)> = has.iter().map(|(key, slots)| (*key, *slots)).collect();
            let wanted_keys: Vec<u32> = wanted.iter().copied().collect();
            let steps = Steps::between(&sorted, &wanted_keys, |key| *key, Slot { bit: 0b10, in_force });
            let mut now: BTreeMap<u32, Slots> = has.clone();
            now.extend(steps.added.iter().copied());
            // An entry that is wanted is on the list before any other loses its slot.
            prop_assert!(wanted.iter().all(|key| now[key] & 0b10 != 0));
            now.extend(steps.cleared.iter().copied());
            steps.removed.iter().for_each(|key| assert!(now.remove(key).is_some()));
            let of = |map: &BTreeMap<u32, Slots>, slots: Slots| -> BTreeMap<u32, Slots> {
                map.iter().map(|(key, has)| (*key, has & slots)).filter(|(_, has)| *has != 0).collect()
            };
            prop_assert_eq!(of(&now, in_force & !0b10), of(&has, in_force & !0b10));
            prop_assert_eq!(of(&now, 0b10).into_keys().collect::<BTreeSet<_>>(), wanted);
            prop_assert_eq!(of(&now, in_force).len(), steps.left);
            let again = Steps::between(
                &now.iter().map(|(key, slots)| (*key, *slots)).collect::<Vec<_>>(), &wanted_keys, |key| *key,
                Slot { bit: 0b10, in_force },
            );
            prop_assert!(again.is_empty());
        }
    }
}
