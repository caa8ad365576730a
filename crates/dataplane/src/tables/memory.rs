//! The kernel memory of each map.

use std::{
    fs,
    os::fd::{AsFd as _, AsRawFd as _},
    path::Path,
};

use aya::maps::MapData;
use ratelimit_common::maps::names;

use crate::{
    Error,
    error::{Tried as _, at},
};

/// One pinned map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapMemory {
    /// Its name.
    pub name: &'static str,
    /// The most entries that it can have.
    pub entries: u32,
    /// Bytes that the kernel reports. Before 6.4, it also counts entries that it allocates only when they are needed.
    pub bytes: u64,
}

/// Returns the memory of every map pinned in `pins`, the largest first.
///
/// # Errors
///
/// [`Error::Bpf`] if a map cannot be opened, or the kernel reports no size.
pub fn of_maps(pins: &Path) -> Result<Vec<MapMemory>, Error> {
    let mut maps = Vec::new();
    for name in names::PINNED {
        let map = MapData::from_pin(pins.join(name)).tried(name)?;
        let entries = map.info().tried(name)?.max_entries();
        let path = format!("/proc/self/fdinfo/{}", map.fd().as_fd().as_raw_fd());
        let text = fs::read_to_string(&path).map_err(at(path))?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
        let missing = || Error::Bpf { what: name, detail: "the kernel does not report its memory".to_owned() };
        maps.push(MapMemory { name, entries, bytes: bytes.ok_or_else(missing)? });
    }
    maps.sort_by_key(|map| std::cmp::Reverse(map.bytes));
    Ok(maps)
}
