//! Entries of named lists. Masks in them name the slots of lists; the control entry tells which slots are in force.
//!
//! A command changes an entry as it changes a [rule](super): it replaces the element.

use aya_ebpf::{
    btf_maps::{Array, HashMap, LpmTrie, PerCpuArray, lpm_trie::Key},
    macros::btf_map,
};
use ratelimit_common::{
    identity::{
        class::ANY,
        source::{IPV4, PrefixKey, Source},
    },
    rules::list::{LIST_SLOTS, LISTS_MAX, List, ListedPrefix, Slots},
};

use super::Aligned;
use crate::{bpf::map_flags::NO_PREALLOC, maps::counters::Counter};

/// See [`ratelimit_common::maps::names::LISTS`].
#[btf_map]
pub static LISTS: Array<List, { LIST_SLOTS as usize }> = Array::new();

/// See [`ratelimit_common::maps::names::LIST_ADDRESSES`].
#[btf_map]
pub static LIST_ADDRESSES: HashMap<u32, Slots, 1, NO_PREALLOC> = HashMap::new();

/// See [`ratelimit_common::maps::names::LIST_PREFIXES`].
#[btf_map]
pub static LIST_PREFIXES: LpmTrie<PrefixKey, ListedPrefix, 1> = LpmTrie::new();

/// See [`ratelimit_common::maps::names::LIST_HITS`].
#[btf_map]
pub static LIST_HITS: PerCpuArray<Counter, { LISTS_MAX as usize }> = PerCpuArray::new();

/// Returns the slots of the lists that have exactly this IPv4 address.
///
/// It reads the element twice, because the element of a hash map can get another key meanwhile.
#[inline(always)]
#[must_use]
pub fn address(source: &Source) -> Slots {
    if source.family != IPV4 || source.prefix != 32 {
        return 0;
    }
    let address = source.first_word();
    // SAFETY: an element that the kernel recycles holds another mask, which is valid too. Volatile because commands
    // write it.
    let find =
        || unsafe { LIST_ADDRESSES.get(address) }.map(|slots| (slots, unsafe { core::ptr::read_volatile(slots) }));
    let Some((place, slots)) = find() else { return 0 };
    match find() {
        Some((again, _)) if core::ptr::eq(place, again) => slots,
        other => other.map_or(0, |(_, slots)| slots),
    }
}

/// Returns the entry of the longest prefix around a source that has at most `bits` bits.
#[inline(always)]
#[must_use]
pub fn prefix(source: &Source, bits: u8) -> Option<ListedPrefix> {
    let (bits, data) = source.of_class(ANY).prefix_key(bits);
    LIST_PREFIXES.get(&Aligned(Key::new(bits, data)).0).copied()
}

/// Returns the list in a slot.
#[inline(always)]
#[must_use]
pub fn slot(slot: u32) -> Option<&'static List> {
    LISTS.get(slot)
}

/// Counts a packet that the list with this number refuses.
#[inline(always)]
pub fn count_hit(list: u32, length: u32) {
    if let Some(hits) = LIST_HITS.get(list) {
        hits.add(length);
    }
}
