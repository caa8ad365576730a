//! Reads and writes the maps of lists, many entries in one system call.

use std::os::fd::{AsFd as _, BorrowedFd};

use aya::maps::{Array, HashMap, IterableMap, LpmTrie, MapData, MapError, PerCpuArray, PerCpuValues, lpm_trie::Key};
use ratelimit_common::{
    identity::source::{PrefixKey, Source},
    maps::names,
    reason::Count,
    rules::list::{LIST_SLOTS, List, ListedPrefix, Slots},
};

use crate::{
    Error,
    error::Tried as _,
    sys::bpf,
    tables::{origin::Origin, prefix_key::prefix_key, table::Table},
};

/// Entries that are written in one system call.
const STEP: usize = 1 << 16;

/// The maps of lists.
pub struct ListMaps {
    slots: Table<Array<MapData, List>>,
    addresses: Table<HashMap<MapData, u32, Slots>>,
    prefixes: Table<LpmTrie<MapData, PrefixKey, ListedPrefix>>,
    hits: Table<PerCpuArray<MapData, Count>>,
}

impl ListMaps {
    /// Takes the maps from where they are.
    pub fn from(origin: &mut Origin<'_>) -> Result<Self, Error> {
        Ok(Self {
            slots: origin.table(names::LISTS)?,
            addresses: origin.table(names::LIST_ADDRESSES)?,
            prefixes: origin.table(names::LIST_PREFIXES)?,
            hits: origin.table(names::LIST_HITS)?,
        })
    }

    /// Returns all slots, in use or not.
    pub fn slots(&self) -> Result<Vec<List>, Error> {
        bpf::array(IterableMap::map(self.slots.open()?).fd().as_fd(), LIST_SLOTS)
    }

    /// Writes one slot.
    pub fn set_slot(&mut self, slot: u32, list: &List) -> Result<(), Error> {
        self.slots.open_mut()?.set(slot, list, 0).tried("cannot write a list")
    }

    /// Returns the slots of exactly this IPv4 address, as the program sees it in memory.
    pub fn address(&self, address: u32) -> Result<Slots, Error> {
        match self.addresses.open()?.get(&address, 0) {
            Err(MapError::KeyNotFound) => Ok(0),
            outcome => outcome.tried("cannot read a list"),
        }
    }

    /// Returns the entry of the longest prefix around a source that has at most `bits` bits.
    pub fn prefix(&self, source: &Source, bits: u8) -> Result<Option<ListedPrefix>, Error> {
        let (bits, data) = source.prefix_key(bits);
        match self.prefixes.open()?.get(&Key::new(bits, data), 0) {
            Err(MapError::KeyNotFound) => Ok(None),
            outcome => outcome.map(Some).tried("cannot read a list"),
        }
    }

    /// Returns all addresses, in no order.
    pub fn addresses(&self) -> Result<Vec<(u32, Slots)>, Error> {
        bpf::entries_in_steps(self.addresses_fd()?, STEP)
    }

    /// Returns all prefixes, in no order.
    pub fn prefixes(&self) -> Result<Vec<(Source, Slots)>, Error> {
        let entries = bpf::trie_entries::<Key<PrefixKey>, ListedPrefix>(self.prefixes_fd()?)?;
        Ok(entries.into_iter().map(|(key, entry)| (key.data().source(key.prefix_len()), entry.slots)).collect())
    }

    /// Returns whether there are more than so many entries.
    pub fn has_more_than(&self, most: usize) -> Result<bool, Error> {
        Ok(bpf::few::<u32, Slots, u32>(self.addresses_fd()?, most)?.is_none()
            || bpf::few::<Key<PrefixKey>, ListedPrefix, Key<PrefixKey>>(self.prefixes_fd()?, most)?.is_none())
    }

    /// Writes addresses. After a failure, some may be written.
    pub fn set_addresses(&self, entries: &[(u32, Slots)]) -> Result<(), Error> {
        for step in entries.chunks(STEP) {
            let (keys, values): (Vec<u32>, Vec<Slots>) = step.iter().copied().unzip();
            bpf::update(self.addresses_fd()?, &keys, &values).tried("cannot write a list")?;
        }
        Ok(())
    }

    /// Writes prefixes. After a failure, some may be written.
    pub fn set_prefixes(&self, entries: &[(Source, Slots)]) -> Result<(), Error> {
        let entry = |(source, slots): &(Source, Slots)| {
            (prefix_key(source), ListedPrefix { slots: *slots, prefix: source.prefix.into() })
        };
        for step in entries.chunks(STEP) {
            let (keys, values): (Vec<_>, Vec<_>) = step.iter().map(entry).unzip();
            bpf::update(self.prefixes_fd()?, &keys, &values).tried("cannot write a list")?;
        }
        Ok(())
    }

    /// Removes addresses that are there.
    pub fn remove_addresses(&self, keys: &[u32]) -> Result<(), Error> {
        keys.chunks(STEP)
            .try_for_each(|step| bpf::delete(self.addresses_fd()?, step).tried("cannot delete from a list"))
    }

    /// Removes prefixes that are there.
    pub fn remove_prefixes(&self, prefixes: &[Source]) -> Result<(), Error> {
        let keys: Vec<_> = prefixes.iter().map(prefix_key).collect();
        keys.chunks(STEP).try_for_each(|step| bpf::delete(self.prefixes_fd()?, step).tried("cannot delete from a list"))
    }

    /// Returns the packets and bytes that the list with this number has refused.
    pub fn hits(&self, number: u32) -> Result<Count, Error> {
        let of_cpus = self.hits.open()?.get(&number, 0).tried("cannot read the hits of a list")?;
        let add = |sum: Count, each: &Count| Count {
            packets: sum.packets.wrapping_add(each.packets),
            bytes: sum.bytes.wrapping_add(each.bytes),
        };
        Ok(of_cpus.iter().fold(Count::default(), add))
    }

    /// Forgets the hits of the list with this number.
    pub fn clear_hits(&mut self, number: u32) -> Result<(), Error> {
        let zeroes =
            vec![Count::default(); self.hits.open()?.get(&number, 0).tried("cannot read the hits of a list")?.len()];
        let zeroes = PerCpuValues::try_from(zeroes).tried("cannot clear the hits of a list")?;
        self.hits.open_mut()?.set(number, zeroes, 0).tried("cannot clear the hits of a list")
    }

    fn addresses_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        Ok(IterableMap::map(self.addresses.open()?).fd().as_fd())
    }

    fn prefixes_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        Ok(IterableMap::map(self.prefixes.open()?).fd().as_fd())
    }
}
