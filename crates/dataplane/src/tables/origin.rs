//! Where the maps of an instance come from.

use std::path::Path;

use aya::{
    Ebpf,
    maps::{Map, MapError},
};

use crate::{Error, tables::table::Table};

/// Where maps come from.
pub enum Origin<'a> {
    /// Pins that are opened when they are first used.
    Pins(&'a Path),
    /// Pins that are opened at once.
    OpenPins(&'a Path),
    /// A loaded object.
    Object(&'a mut Ebpf),
}

impl Origin<'_> {
    /// Returns one map as a typed handle.
    pub fn table<T: TryFrom<Map, Error = MapError>>(&mut self, name: &'static str) -> Result<Table<T>, Error> {
        let table = match self {
            Self::Pins(pins) | Self::OpenPins(pins) => Table::pinned(pins, name),
            Self::Object(object) => {
                let missing = || Error::Bpf { what: "broken build", detail: format!("the object has no map {name}") };
                Table::opened(object.take_map(name).ok_or_else(missing)?, name)?
            }
        };
        if matches!(self, Self::OpenPins(_)) {
            table.open()?;
        }
        Ok(table)
    }
}
