//! Plans which entries a change of lists writes and removes.

use std::{collections::HashMap, hash::Hash};

use ratelimit_common::{identity::source::Source, rules::list::Slots};

use crate::{Error, tables::open::Tables};

/// The slots before, during and after a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switch {
    /// In force before.
    pub(super) before: Slots,
    /// New ones, which nothing uses before the switch.
    pub(super) new: Slots,
    /// In force afterwards.
    pub(super) after: Slots,
}

/// What a change does to entries of one kind.
#[derive(Debug, PartialEq, Eq)]
struct Steps<K> {
    /// Entries that no slot in force has, and that no new one needs.
    stale: Vec<K>,
    /// Entries to write.
    written: Vec<(K, Slots)>,
    /// Entries to remove after the switch.
    gone: Vec<K>,
    /// Entries after all that.
    left: usize,
}

impl<K: Copy> Steps<K> {
    fn new() -> Self {
        Self { stale: Vec::new(), written: Vec::new(), gone: Vec::new(), left: 0 }
    }

    /// Adds the steps of one entry, which has these slots and shall have those new ones.
    fn add(&mut self, key: K, has: Slots, wanted: Slots, Switch { before, new, after }: Switch) {
        let during = has & before | wanted;
        if during == 0 {
            self.stale.push(key);
            return;
        }
        // Bits of other unused slots do no harm.
        if has & new != wanted {
            self.written.push((key, during));
        }
        if during & after == 0 {
            self.gone.push(key);
        } else {
            self.left += 1;
        }
    }
}

/// The steps of a change.
pub(super) struct Plan {
    addresses: Steps<u32>,
    prefixes: Steps<Source>,
}

impl Plan {
    /// Plans a switch to lists with these entries. `addresses` is sorted, and has each key once.
    pub(super) fn new(
        tables: &Tables,
        addresses: &[(u32, Slots)],
        prefixes: HashMap<Source, Slots>,
        switch: Switch,
    ) -> Result<Self, Error> {
        let mut has = tables.lists.addresses()?;
        has.sort_unstable();
        Ok(Self {
            addresses: merged(&has, addresses, switch),
            prefixes: looked_up(tables.lists.prefixes()?, prefixes, switch),
        })
    }

    /// Returns the numbers of addresses and prefixes that the lists have afterwards.
    pub(super) fn left(&self) -> [usize; 2] {
        [self.addresses.left, self.prefixes.left]
    }

    /// Returns whether it removes entries.
    pub(super) fn removes_any(&self) -> bool {
        !self.addresses.gone.is_empty() || !self.prefixes.gone.is_empty()
    }

    /// Does what comes before the switch.
    pub(super) fn write(&self, tables: &Tables) -> Result<(), Error> {
        tables.lists.remove_addresses(&self.addresses.stale)?;
        tables.lists.remove_prefixes(&self.prefixes.stale)?;
        tables.lists.set_addresses(&self.addresses.written)?;
        tables.lists.set_prefixes(&self.prefixes.written)
    }

    /// Does what comes after the switch, when no packet uses the old slots any more.
    pub(super) fn finish(&self, tables: &Tables) -> Result<(), Error> {
        tables.lists.remove_addresses(&self.addresses.gone)?;
        tables.lists.remove_prefixes(&self.prefixes.gone)
    }
}

/// Returns the steps for two sorted lists of entries.
fn merged(has: &[(u32, Slots)], wanted: &[(u32, Slots)], switch: Switch) -> Steps<u32> {
    let (mut steps, mut has, mut wanted) = (Steps::new(), has.iter().peekable(), wanted.iter().peekable());
    while let Some(key) = has.peek().into_iter().chain(wanted.peek()).map(|(key, _)| *key).min() {
        let slots = |entry: Option<&(u32, Slots)>| entry.map_or(0, |(_, slots)| *slots);
        let has = slots(has.next_if(|(of, _)| *of == key));
        let wanted = slots(wanted.next_if(|(of, _)| *of == key));
        steps.add(key, has, wanted, switch);
    }
    steps
}

/// Returns the same for entries without an order.
fn looked_up<K: Copy + Eq + Hash>(has: Vec<(K, Slots)>, mut wanted: HashMap<K, Slots>, switch: Switch) -> Steps<K> {
    let mut steps = Steps::new();
    for (key, has) in has {
        steps.add(key, has, wanted.remove(&key).unwrap_or(0), switch);
    }
    wanted.into_iter().for_each(|(key, wanted)| steps.add(key, 0, wanted, switch));
    steps
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Map = BTreeMap<u32, Slots>;

    fn map() -> impl Strategy<Value = Map> {
        prop::collection::btree_map(0u32..12, 1u64..64, 0..12)
    }

    /// Writes and removes entries as the kernel does.
    fn apply(map: &mut Map, removed: &[u32], written: &[(u32, Slots)]) {
        removed.iter().for_each(|key| assert!(map.remove(key).is_some()));
        map.extend(written.iter().copied());
    }

    proptest! {
        /// Slots 0 to 5. Whatever stale bits there are, no entry has another list than before until the switch, and
        /// exactly the new lists after it.
        #[test]
        fn only_the_switch_changes_the_lists_of_an_entry(has in map(), wanted in map(), before in 0u64..64, kept in 0u64..64) {
            let new = !before & 0b111;
            let wanted: Map = wanted.into_iter().map(|(key, slots)| (key, slots & new)).filter(|(_, slots)| *slots != 0).collect();
            let switch = Switch { before, new, after: before & kept | new };
            let sorted = |map: &Map| map.iter().map(|(key, slots)| (*key, *slots)).collect::<Vec<_>>();
            let steps = merged(&sorted(&has), &sorted(&wanted), switch);
            let other = looked_up(sorted(&has), wanted.clone().into_iter().collect(), switch);
            prop_assert_eq!((steps.left, steps.written.len()), (other.left, other.written.len()));
            let mut now = has.clone();
            apply(&mut now, &steps.stale, &steps.written);
            let slots = |map: &Map, key: u32| map.get(&key).copied().unwrap_or(0);
            for key in 0..12 {
                prop_assert_eq!(slots(&now, key) & before, slots(&has, key) & before);
                prop_assert_eq!(slots(&now, key) & new, slots(&wanted, key));
            }
            let switched = now.clone();
            apply(&mut now, &steps.gone, &[]);
            prop_assert!((0..12).all(|key| slots(&now, key) & switch.after == slots(&switched, key) & switch.after));
            prop_assert!(now.values().all(|slots| slots & switch.after != 0));
            prop_assert_eq!(now.len(), steps.left);
        }
    }
}
