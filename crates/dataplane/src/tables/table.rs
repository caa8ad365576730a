//! One map of an instance, opened when it is first used: most commands use few of them.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use aya::maps::{Map, MapData, MapError};

use crate::{Error, error::Tried as _};

/// A map that is opened when it is first used.
pub struct Table<T> {
    name: &'static str,
    pins: PathBuf,
    map: OnceLock<T>,
}

impl<T: TryFrom<Map, Error = MapError>> Table<T> {
    /// Returns the map that is pinned in `pins` under this name. It is opened later.
    pub fn pinned(pins: &Path, name: &'static str) -> Self {
        Self { name, pins: pins.to_owned(), map: OnceLock::new() }
    }

    /// Wraps a map that is already open.
    pub fn opened(map: Map, name: &'static str) -> Result<Self, Error> {
        let map = T::try_from(map).tried(name)?;
        Ok(Self { name, pins: PathBuf::new(), map: OnceLock::from(map) })
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the map for reading.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses, or its entries have another type.
    pub fn open(&self) -> Result<&T, Error> {
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        let map = open(&self.pins, self.name)?;
        Ok(self.map.get_or_init(|| map))
    }

    /// Returns the map for writing.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses, or its entries have another type.
    pub fn open_mut(&mut self) -> Result<&mut T, Error> {
        self.open()?;
        let name = self.name;
        self.map.get_mut().ok_or_else(|| Error::Bpf { what: name, detail: "not open".to_owned() })
    }
}

/// Opens the map that is pinned in `pins` under this name.
pub fn open<T: TryFrom<Map, Error = MapError>>(pins: &Path, name: &'static str) -> Result<T, Error> {
    MapData::from_pin(pins.join(name)).and_then(Map::from_map_data).and_then(T::try_from).tried(name)
}
