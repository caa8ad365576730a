//! The memory of the maps.

use anyhow::Result;
use ratelimit_dataplane::{Instance, tables::memory};
use serde::Serialize;

/// The memory of all maps.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    pub(super) bytes: u64,
    /// In the order of size, the largest first.
    pub(super) maps: Vec<MapMemory>,
}

/// The memory of one map.
#[derive(Debug, Serialize)]
pub(super) struct MapMemory {
    pub(super) name: &'static str,
    pub(super) entries: u32,
    pub(super) bytes: u64,
}

impl Memory {
    pub(super) fn read(instance: &Instance) -> Result<Self> {
        let maps: Vec<_> = memory::of_maps(instance.pins())?
            .into_iter()
            .map(|memory::MapMemory { name, entries, bytes }| MapMemory { name, entries, bytes })
            .collect();
        Ok(Self { bytes: maps.iter().map(|map| map.bytes).sum(), maps })
    }
}
