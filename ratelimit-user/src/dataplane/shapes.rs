//! What pinned maps must look like before they are trusted: aya would take them unseen.

use std::path::Path;

use aya::maps::{MapInfo, MapType, lpm_trie::Key};
use ratelimit_common::{
    bucket::Bucket,
    capacity::{self, Capacity},
    cell::Cell,
    class::CLASSES,
    control::{ABI_VERSION, Control},
    cpu::Cpu,
    event::{self, Event, Written},
    filter::Filter,
    interface::{Counts, Ledger, PLACES},
    log::Log,
    map,
    policy::Policy,
    reason::{Count, REASONS},
    rule::Rule,
    service::{ClassEntry, Services},
    source::{PrefixKey, Source},
};

use super::{Error, raw::RawMap};

/// What a pinned map must look like.
struct Shape {
    name: &'static str,
    kind: MapType,
    key: usize,
    value: usize,
    /// None where the operator chooses it.
    entries: Option<u32>,
}

const SHAPES: [Shape; map::PINNED.len()] = [
    Shape::of::<u32, Control>(map::CONTROL, MapType::Array, Some(1)),
    Shape::of::<Source, Bucket>(map::BUCKETS, MapType::LruHash, None),
    Shape::of::<Source, Rule>(map::SOURCE_RULES, MapType::Hash, Some(map::SOURCE_RULES_MAX)),
    Shape::of::<Key<PrefixKey>, Rule>(map::PREFIX_RULES, MapType::LpmTrie, Some(map::PREFIX_RULES_MAX)),
    Shape::of::<u32, Policy>(map::POLICIES, MapType::Array, Some(map::POLICIES_MAX)),
    Shape::of::<u32, ClassEntry>(map::CLASSES, MapType::Array, Some(CLASSES as u32)),
    Shape::of::<u32, Services>(map::SERVICES, MapType::Array, Some(1)),
    Shape::of::<u32, Count>(map::COUNTERS, MapType::PerCpuArray, Some(2 * REASONS as u32)),
    Shape::of::<u32, u64>(map::DISCOVERY, MapType::Array, Some(1)),
    Shape::of::<u32, Cell>(map::FRONT, MapType::Array, None),
    Shape::of::<Source, Rule>(map::BANS, MapType::Hash, Some(map::BANS_MAX)),
    Shape::of::<u32, Filter>(map::RULE_FILTER, MapType::Array, Some(1)),
    Shape::of::<u32, Cpu>(map::CPUS, MapType::PerCpuArray, Some(1)),
    Shape::of::<u32, u64>(map::STRANGERS, MapType::Array, Some(1)),
    Shape::of::<Source, Log>(map::LOGS, MapType::LruHash, None),
    Shape::of::<u32, Log>(map::EMPTY_LOG, MapType::Array, Some(1)),
    Shape::of::<u32, Capacity>(map::CAPACITIES, MapType::Array, Some(capacity::PLACES)),
    Shape::of::<u32, u64>(map::CAPACITY_LEFT, MapType::PerCpuArray, Some(capacity::PLACES)),
    Shape::of::<u32, u64>(map::REPLIES, MapType::Array, Some(1)),
    Shape::of::<u32, Event>(map::EVENTS, MapType::Array, Some(event::PLACES)),
    Shape::of::<u32, Written>(map::EVENTS_WRITTEN, MapType::Array, Some(1)),
    Shape::of::<u32, Ledger>(map::LEDGER, MapType::Array, Some(1)),
    Shape::of::<u32, Counts>(map::SHARES, MapType::PerCpuArray, Some(PLACES as u32 + 1)),
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
pub(super) fn check(pins: &Path) -> Result<(), Error> {
    let path = || pins.to_owned();
    // Before the shape of anything is known: every version has it first.
    let abi = RawMap::from_pin(&pins.join(map::CONTROL)).and_then(|control| control.get(&0u32.to_ne_bytes()));
    let abi = abi.ok().flatten().and_then(|control| control.first_chunk().copied()).map(u32::from_ne_bytes);
    if let Some(abi) = abi.filter(|abi| *abi != ABI_VERSION) {
        return Err(Error::OtherAbi { path: path(), detail: format!("layout {abi}, this is {ABI_VERSION}") });
    }
    let damaged = |detail| Error::Damaged { path: path(), detail };
    SHAPES.iter().try_for_each(|shape| shape.difference(pins)).map_err(damaged)
}
