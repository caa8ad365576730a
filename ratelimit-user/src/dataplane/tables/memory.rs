//! How much kernel memory the maps take.

use std::{
    fs,
    os::fd::{AsFd as _, AsRawFd as _},
    path::Path,
};

use aya::maps::MapData;
use ratelimit_common::maps::names;

use crate::dataplane::{
    Error, Instance,
    error::{Tried as _, at},
};

/// One pinned map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapMemory {
    /// Its name.
    pub name: &'static str,
    /// Entries that it has, or has room for.
    pub entries: u32,
    /// Bytes that the kernel says it takes. Before 6.4 the kernel counts entries that are made when they are needed as if all were there.
    pub bytes: u64,
}

/// Every pinned map, the largest first.
///
/// # Errors
///
/// [`Error::Bpf`] where a map cannot be asked, or says no size.
pub fn of_maps(instance: &Instance) -> Result<Vec<MapMemory>, Error> {
    in_folder(&instance.pins)
}

/// The same of those that are pinned in a folder.
pub(crate) fn in_folder(pins: &Path) -> Result<Vec<MapMemory>, Error> {
    let mut maps = Vec::new();
    for name in names::PINNED {
        let map = MapData::from_pin(pins.join(name)).tried(name)?;
        let entries = map.info().tried(name)?.max_entries();
        let path = format!("/proc/self/fdinfo/{}", map.fd().as_fd().as_raw_fd());
        let text = fs::read_to_string(&path).map_err(at(path))?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
        let missing = || Error::Bpf { what: name, detail: "the kernel says nothing of its memory".to_owned() };
        maps.push(MapMemory { name, entries, bytes: bytes.ok_or_else(missing)? });
    }
    maps.sort_by_key(|map| std::cmp::Reverse(map.bytes));
    Ok(maps)
}
