//! What operators and the daemon have changed, in a map of the instance.

use std::{
    io,
    os::fd::AsFd as _,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aya::maps::{HashMap, IterableMap, Map, MapData, MapError};
use ratelimit_common::maps::{
    change::Change,
    names::{CHANGES, CHANGES_MAX},
};

use crate::{Error, error::Tried as _, sys::bpf};

/// The part of the changes that goes when all places are used.
const GOING: usize = CHANGES_MAX as usize / 4;

/// The changes of one instance.
pub struct Changes(HashMap<MapData, u64, Change>);

impl Changes {
    /// Opens the map. None if there is no instance, or one of a version without it.
    pub fn open(pins: &Path) -> Result<Option<Self>, Error> {
        let is_missing = |error: &MapError| match error {
            MapError::SyscallError(error) => error.io_error.kind() == io::ErrorKind::NotFound,
            _ => false,
        };
        let map = match MapData::from_pin(pins.join(CHANGES)) {
            Err(error) if is_missing(&error) => return Ok(None),
            map => map.tried("cannot open the record of changes")?,
        };
        Ok(Some(Self(Map::HashMap(map).try_into().tried("cannot open the record of changes")?)))
    }

    /// Returns all changes with their times since 1970, the oldest first.
    pub fn all(&self) -> Result<Vec<(Duration, Change)>, Error> {
        let mut all: Vec<(u64, Change)> = bpf::entries(self.0.map().fd().as_fd())?;
        all.sort_unstable_by_key(|(time, _)| *time);
        Ok(all.into_iter().map(|(time, change)| (Duration::from_nanos(time), change)).collect())
    }

    /// Adds a change that was made now. If there is no place, the oldest ones go. With `once`, it replaces the
    /// change before if both are the same.
    pub fn add(&mut self, change: &Change, once: bool) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut all: Vec<(u64, Change)> = bpf::entries(self.0.map().fd().as_fd())?;
        all.sort_unstable_by_key(|(time, _)| *time);
        // The clock may have been set back.
        let after_last = all.last().map_or(0, |(time, _)| time.saturating_add(1));
        let key = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).max(after_last);
        let is_full = all.len() >= CHANGES_MAX as usize;
        let oldest = all.iter().take(if is_full { GOING } else { 0 });
        let same = all.last().filter(|(_, last)| once && last == change);
        for (time, _) in oldest.chain(same) {
            // Another command may have removed it.
            let _ = self.0.remove(time);
        }
        self.0.insert(key, change, 0).tried("cannot record a change")
    }
}
