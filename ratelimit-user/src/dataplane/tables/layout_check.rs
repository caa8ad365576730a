//! What pinned maps must look like before they are trusted: aya would take them unseen.

use std::path::Path;

use aya::maps::{MapInfo, MapType, lpm_trie::Key};
use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    cells::cell::Cell,
    identity::{
        class::CLASSES,
        filter::Filter,
        service::{ClassEntry, Services},
        source::{PrefixKey, Source},
    },
    limits::policy::Policy,
    maps::{
        control::{ABI_VERSION, Control},
        cpu::Cpu,
        event::{self, Event, Written},
        interface_counters::{Counts, Ledger, PLACES},
        names,
    },
    meters::interface_capacity::{self, Capacity},
    reason::{Count, REASONS},
    rules::rule::Rule,
};

use crate::dataplane::{Error, sys::raw::RawMap};

/// What a pinned map must look like.
struct Shape {
    name: &'static str,
    kind: MapType,
    key: usize,
    value: usize,
    /// None where the operator chooses it.
    entries: Option<u32>,
}

const SHAPES: [Shape; names::PINNED.len()] = [
    Shape::of::<u32, Control>(names::CONTROL, MapType::Array, Some(1)),
    Shape::of::<Source, Bucket>(names::BUCKETS, MapType::LruHash, None),
    Shape::of::<Source, Rule>(names::SOURCE_RULES, MapType::Hash, Some(names::SOURCE_RULES_MAX)),
    Shape::of::<Key<PrefixKey>, Rule>(names::PREFIX_RULES, MapType::LpmTrie, Some(names::PREFIX_RULES_MAX)),
    Shape::of::<u32, Policy>(names::POLICIES, MapType::Array, Some(names::POLICIES_MAX)),
    Shape::of::<u32, ClassEntry>(names::CLASSES, MapType::Array, Some(CLASSES as u32)),
    Shape::of::<u32, Services>(names::SERVICES, MapType::Array, Some(1)),
    Shape::of::<u32, Count>(names::COUNTERS, MapType::PerCpuArray, Some(2 * REASONS as u32)),
    Shape::of::<u32, u64>(names::LINK_DISCOVERY, MapType::Array, Some(1)),
    Shape::of::<u32, Cell>(names::FRONT, MapType::Array, None),
    Shape::of::<Source, Rule>(names::BANS, MapType::Hash, Some(names::BANS_MAX)),
    Shape::of::<u32, Filter>(names::RULE_FILTER, MapType::Array, Some(1)),
    Shape::of::<u32, Cpu>(names::CPUS, MapType::PerCpuArray, Some(1)),
    Shape::of::<u32, u64>(names::UNKNOWN, MapType::Array, Some(1)),
    Shape::of::<Source, Log>(names::SLIDING_LOGS, MapType::LruHash, None),
    Shape::of::<u32, Log>(names::EMPTY_SLIDING_LOG, MapType::Array, Some(1)),
    Shape::of::<u32, Capacity>(names::INTERFACE_CAPACITIES, MapType::Array, Some(interface_capacity::PLACES)),
    Shape::of::<u32, u64>(names::INTERFACE_CAPACITY_LEFT, MapType::PerCpuArray, Some(interface_capacity::PLACES)),
    Shape::of::<u32, u64>(names::REPLIES, MapType::Array, Some(1)),
    Shape::of::<u32, Event>(names::EVENTS, MapType::Array, Some(event::PLACES)),
    Shape::of::<u32, Written>(names::EVENTS_WRITTEN, MapType::Array, Some(1)),
    Shape::of::<u32, Ledger>(names::LEDGER, MapType::Array, Some(1)),
    Shape::of::<u32, Counts>(names::INTERFACE_COUNTERS, MapType::PerCpuArray, Some(PLACES as u32 + 1)),
];

impl Shape {
    const fn of<K, V>(name: &'static str, kind: MapType, entries: Option<u32>) -> Self {
        Self { name, kind, key: size_of::<K>(), value: size_of::<V>(), entries }
    }

    /// What differs in the map pinned at `path`.
    fn difference(&self, path: &Path) -> Result<(), String> {
        let info = MapInfo::from_pin(path.join(self.name)).map_err(|error| format!("{}: {error}", self.name))?;
        let kind = info.map_type().map_err(|error| format!("{}: {error}", self.name))?;
        let found = (kind, info.key_size() as usize, info.value_size() as usize);
        let entries = self.entries.unwrap_or(info.max_entries());
        if found == (self.kind, self.key, self.value) && info.max_entries() == entries {
            return Ok(());
        }
        Err(format!(
            "{} is a {:?} of {} + {} bytes, {} entries",
            self.name,
            found.0,
            found.1,
            found.2,
            info.max_entries()
        ))
    }
}

/// Checks that the maps pinned in `pins` are laid out as this build expects.
///
/// # Errors
///
/// [`Error::OtherAbi`] where another version made them, [`Error::Damaged`] with the first difference otherwise.
pub(crate) fn check(pins: &Path) -> Result<(), Error> {
    let path = || pins.to_owned();
    // Before the shape of anything is known: every version has it first.
    let abi = RawMap::from_pin(&pins.join(names::CONTROL)).and_then(|control| control.get(&0u32.to_ne_bytes()));
    let abi = abi.ok().flatten().and_then(|control| control.first_chunk().copied()).map(u32::from_ne_bytes);
    if let Some(abi) = abi.filter(|abi| *abi != ABI_VERSION) {
        return Err(Error::OtherAbi { path: path(), detail: format!("layout {abi}, this is {ABI_VERSION}") });
    }
    let damaged = |detail| Error::Damaged { path: path(), detail };
    SHAPES.iter().try_for_each(|shape| shape.difference(pins)).map_err(damaged)
}
